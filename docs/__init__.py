"""Documentation: pages, and in `building/` what makes a site of them (`make docs`)."""
