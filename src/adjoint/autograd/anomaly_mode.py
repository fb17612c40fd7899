"""`ad.autograd.anomaly_mode`: modes that look for NaN, by the name of their module."""

from adjoint.tensor.modes import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
