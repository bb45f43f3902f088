"""Which method loses least at a budget: runs read, sorted onto axes, tested against noise, and told in one sentence."""
