"""GPUs as runs use them: devices, who holds their memory, and what of it is a run's. The only door to NVML."""
