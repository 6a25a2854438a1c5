"""Where bytes live: records and chunks over one small protocol. Knows no pickle."""
