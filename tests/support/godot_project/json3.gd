# JSON in Godot 3.


static func text(value):
	return JSON.print(value)


static func value(text):
	return JSON.parse(text).result
