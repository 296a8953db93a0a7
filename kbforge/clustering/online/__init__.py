"""The phases of one online step: score, propose, reweigh, resample, merge, grow, split."""
