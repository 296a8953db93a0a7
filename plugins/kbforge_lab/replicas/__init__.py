"""Sequential importance resampling: replicas that draw their groupings, each by itself."""
