# Files in Godot 3.


static func opened(path, write):
	var file = File.new()
	file.open(path, File.WRITE if write else File.READ)
	return file
