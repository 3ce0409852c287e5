"""What fits on PyTorch share: the device, one thread, Adam, exact layers, what is trained at the door."""
