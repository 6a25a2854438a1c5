"""What identifies code and inputs. Reads, never writes; raises Unidentified rather than guess."""
