"""What fits on PyTorch share: the device, one thread, Adam, a generator of rows."""
