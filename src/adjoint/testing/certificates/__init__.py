"""Certificates: how far derivatives are from the truth, in ulp, with proven bounds."""
