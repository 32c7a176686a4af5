# JSON in Godot 4; the keys keep their order.


static func text(value):
	return JSON.stringify(value, "", false)


static func value(text):
	return JSON.parse_string(text)
