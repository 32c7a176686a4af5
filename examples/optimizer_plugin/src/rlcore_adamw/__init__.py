"""AdamW, and a schedule with a warm-up, for the trainers of rlcore."""
