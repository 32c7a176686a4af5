# A discrete world: a pole on a cart, which is pushed to the left or to the right.
#
# It terminates when the pole leans too far or the cart leaves the track, and is cut off after 100 decisions. Every
# physics tick has a reward of 1 / action_repeat.

const OBSERVATIONS = {"obs": {"size": [4], "space": "box"}}
const ACTIONS = {"push": {"size": 2, "action_type": "discrete"}}
const LIMIT = 100
const GRAVITY = 9.8
const CART = 1.0
const POLE = 0.1
const HALF_LENGTH = 0.5
const FORCE = 10.0

var place = 0.0
var speed = 0.0
var angle = 0.0
var turning = 0.0
var push = 0
var reward = 0.0
var terminated = false


func begin():
	place = 0.1 * randf() - 0.05
	speed = 0.1 * randf() - 0.05
	angle = 0.1 * randf() - 0.05
	turning = 0.1 * randf() - 0.05
	terminated = false


func act(action):
	push = int(action["push"])


func advance(delta):
	var force = FORCE if push == 1 else -FORCE
	var total = CART + POLE
	var pull = (force + POLE * HALF_LENGTH * turning * turning * sin(angle)) / total
	var turn = (GRAVITY * sin(angle) - cos(angle) * pull) / (HALF_LENGTH * (4.0 / 3.0 - POLE * cos(angle) * cos(angle) / total))
	var push_back = pull - POLE * HALF_LENGTH * turn * cos(angle) / total
	place += delta * speed
	speed += delta * push_back
	angle += delta * turning
	turning += delta * turn
	reward += 1.0
	terminated = abs(place) > 2.4 or abs(angle) > 0.21


func observe():
	return {"obs": [place, speed, angle, turning]}
