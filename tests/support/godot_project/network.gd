# A policy of an exported file, computed in GDScript: an independent reader of what rlcore-onnx writes.
#
# tests/support/godot_playing.py writes the graph as JSON: the constants by name, each with its shape and its numbers,
# and the operators in their order. A value is one row: an array of numbers.

var values = {}
var shapes = {}
var nodes = []
var problem = ""


func read(graph):
	for name in graph["constants"]:
		values[name] = graph["constants"][name]["numbers"]
		shapes[name] = graph["constants"][name]["shape"]
	nodes = graph["nodes"]


# The numbers of `output` for the numbers of `obs`.
func run(seen):
	values["obs"] = seen
	for node in nodes:
		_compute(node)
	return values["output"]


func _compute(node):
	var inputs = node["inputs"]
	var outputs = node["outputs"]
	var first = values[inputs[0]]
	var kind = node["kind"]
	if kind == "Split":
		var begin = 0
		for place in range(outputs.size()):
			var part = []
			for _each in range(int(node["sizes"][place])):
				part.append(first[begin])
				begin += 1
			values[outputs[place]] = part
		return
	var result = []
	if kind == "Gemm":
		var weight = values[inputs[1]]
		var bias = values[inputs[2]]
		var columns = int(shapes[inputs[1]][1])
		for row in range(int(shapes[inputs[1]][0])):
			var sum = bias[row]
			for column in range(columns):
				sum += weight[row * columns + column] * first[column]
			result.append(sum)
	elif kind == "Concat":
		for input in inputs:
			for number in values[input]:
				result.append(number)
	elif kind == "Softmax":
		var largest = first[0]
		for number in first:
			largest = max(largest, number)
		var total = 0.0
		for number in first:
			total += exp(number - largest)
		for number in first:
			result.append(exp(number - largest) / total)
	elif inputs.size() == 2 and kind in ["Add", "Sub", "Mul", "Div", "Max", "Min"]:
		var second = values[inputs[1]]
		for place in range(max(first.size(), second.size())):
			var left = first[place if first.size() > 1 else 0]
			var right = second[place if second.size() > 1 else 0]
			result.append(_two(kind, left, right))
	else:
		for number in first:
			result.append(_one(kind, number, inputs))
	values[outputs[0]] = result


func _two(kind, left, right):
	if kind == "Add":
		return left + right
	if kind == "Sub":
		return left - right
	if kind == "Mul":
		return left * right
	if kind == "Div":
		return left / right
	return max(left, right) if kind == "Max" else min(left, right)


func _one(kind, number, inputs):
	if kind == "Sigmoid":
		return 1.0 / (1.0 + exp(-number))
	if kind == "Tanh":
		return tanh(number)
	if kind == "Relu":
		return max(number, 0.0)
	if kind == "Clip":
		return clamp(number, values[inputs[1]][0], values[inputs[2]][0])
	if kind in ["Cast", "Reshape", "Identity"]:
		return number
	problem = "the operator " + kind + " is not known"
	return 0.0
