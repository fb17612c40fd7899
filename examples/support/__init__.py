"""What the examples share: arguments, progress, steps and their times, pictures, data."""
