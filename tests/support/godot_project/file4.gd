# Files in Godot 4.


static func opened(path, write):
	return FileAccess.open(path, FileAccess.WRITE if write else FileAccess.READ)
