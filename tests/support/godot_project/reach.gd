# A continuous world: a point in a square moves to a target.
#
# It terminates within 0.1 of the target, with a reward of 1, and is cut off after 40 decisions. The reward of a decision
# is by how much it came nearer.

const OBSERVATIONS = {"obs": {"size": [2], "space": "box"}}
const ACTIONS = {"move": {"size": 2, "action_type": "continuous"}}
const LIMIT = 40
const SPEED = 1.5

var x = 0.0
var y = 0.0
var target_x = 0.0
var target_y = 0.0
var move = [0.0, 0.0]
var reward = 0.0
var terminated = false


func begin():
	x = 2.0 * randf() - 1.0
	y = 2.0 * randf() - 1.0
	target_x = 2.0 * randf() - 1.0
	target_y = 2.0 * randf() - 1.0
	terminated = _distance() < 0.1
	if terminated:
		begin()


func act(action):
	move = action["move"]


func advance(delta):
	var before = _distance()
	x = clamp(x + clamp(move[0], -1.0, 1.0) * SPEED * delta, -1.0, 1.0)
	y = clamp(y + clamp(move[1], -1.0, 1.0) * SPEED * delta, -1.0, 1.0)
	reward += before - _distance()
	if _distance() < 0.1:
		reward += 1.0
		terminated = true


func observe():
	return {"obs": [target_x - x, target_y - y]}


func _distance():
	return sqrt((target_x - x) * (target_x - x) + (target_y - y) * (target_y - y))
