"""Checks of derivatives: gradcheck, the laws, and the samples they run on."""
