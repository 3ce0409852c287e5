"""Real against synthetic. Not private: it reads both tables exactly."""
