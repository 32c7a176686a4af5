"""What runs do with curricula: the values each environment plays with, and which episode began with what."""
