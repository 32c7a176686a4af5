# The side of a game in the protocol of Godot RL Agents, for Godot 3 and 4, and the loop of its worlds.
#
# Arguments, each as --name=value:
#   port           of the trainer, which listens on this machine (11008)
#   env_seed       of all random numbers (0)
#   action_repeat  physics ticks for which an action is repeated (2)
#   world          reach or pole (reach)
#   agents         worlds side by side, one agent each (8)
#   ends           told: with info.terminal_observation and TimeLimit.truncated; plain: done alone (told)
#   network        a file of tests/support/godot_playing.py: play with this policy, without a trainer
#   episodes       that are played with it before the game ends (20)
#   record         where to write what was observed and done with it
#   fault          what goes wrong at the decision number `at`: exit, freeze, nan
extends Node

var json = null
var arguments = {}
var peer = null
var worlds = []
var steps = []
var names = {}
var repeat = 2
var tick = 0
var decisions = 0
var waits_for = ""
var network = null
var record = []
var returns = []
var totals = []


func _ready():
	json = load("res://json%d.gd" % Engine.get_version_info()["major"])
	for word in OS.get_cmdline_args():
		if word.begins_with("--") and "=" in word:
			arguments[word.substr(2, word.find("=") - 2)] = word.substr(word.find("=") + 1, word.length())
	seed(int(_argument("env_seed", "0")))
	repeat = int(_argument("action_repeat", "2"))
	var speedup = int(_argument("speedup", "1"))
	if Engine.get_version_info()["major"] == 3:
		Engine.set("iterations_per_second", 60 * speedup)
	else:
		Engine.set("physics_ticks_per_second", 60 * speedup)
	Engine.time_scale = speedup
	var kind = load("res://%s.gd" % _argument("world", "reach"))
	for _each in range(int(_argument("agents", "8"))):
		worlds.append(kind.new())
		steps.append(0)
		totals.append(0.0)
	_begin_all()
	if "network" in arguments:
		network = load("res://network.gd").new()
		network.read(json.value(_text_of(arguments["network"])))
	else:
		_connect()


func _argument(name, otherwise):
	return arguments[name] if name in arguments else otherwise


func _begin_all():
	for place in range(worlds.size()):
		_begin(place)


func _begin(place):
	worlds[place].begin()
	worlds[place].reward = 0.0
	steps[place] = 0
	totals[place] = 0.0


func _physics_process(delta):
	if tick % repeat == 0:
		decisions += 1
		if network != null:
			_play()
		else:
			_train()
	tick += 1
	for world in worlds:
		if not world.terminated:
			world.advance(delta)


# ---------------------------------------------------------------- with a trainer


func _connect():
	peer = StreamPeerTCP.new()
	peer.big_endian = false
	peer.connect_to_host("127.0.0.1", int(_argument("port", "11008")))
	for _each in range(500):
		if peer.has_method("poll"):
			peer.call("poll")
		if peer.get_status() != 1:
			break
		OS.delay_msec(10)
	if peer.get_status() != 2:
		push_error("no trainer listens on port " + _argument("port", "11008"))
		get_tree().quit()
		return
	peer.set_no_delay(true)
	var hello = _receive()
	if hello["type"] != "handshake" or str(hello["major_version"]) != "0":
		push_error("the trainer speaks another protocol")


func _send(message):
	peer.put_utf8_string(json.text(message))


# An empty message is the end of the connection.
func _receive():
	var text = peer.get_utf8_string()
	return json.value(text) if text.length() > 0 else {"type": "close"}


func _train():
	if waits_for == "step":
		_send(_answer())
	while true:
		var message = _receive()
		if message["type"] == "env_info":
			_send(_described())
		elif message["type"] == "reset":
			_begin_all()
			_send({"type": "reset", "obs": _observed()})
		elif message["type"] == "call":
			_send({"type": "call", "returns": call(message["method"])})
		elif message["type"] == "action":
			for place in range(worlds.size()):
				worlds[place].act(message["action"][place])
			waits_for = "step"
			return
		else:
			get_tree().quit()
			set_physics_process(false)
			return


func _described():
	var observations = []
	var actions = []
	var policies = []
	for world in worlds:
		observations.append(world.OBSERVATIONS)
		actions.append(world.ACTIONS)
		policies.append(_argument("world", "reach"))
	var rate = "iterations_per_second" if Engine.get_version_info()["major"] == 3 else "physics_ticks_per_second"
	return {
		"type": "env_info",
		"n_agents": worlds.size(),
		"observation_space": observations,
		"action_space": actions,
		"agent_policy_names": policies,
		"physics_ticks_per_second": Engine.get(rate)
	}


func _observed():
	var seen = []
	for world in worlds:
		seen.append(world.observe())
	return seen


func _answer():
	_fault()
	var rewards = []
	var done = []
	var info = []
	for place in range(worlds.size()):
		var world = worlds[place]
		steps[place] += 1
		rewards.append(_reward(world))
		var cut = not world.terminated and steps[place] >= world.LIMIT
		done.append(world.terminated or cut)
		info.append({})
		if world.terminated or cut:
			info[place] = {
				"terminal_observation": world.observe(), "TimeLimit.truncated": cut, "is_success": world.terminated
			}
			_begin(place)
	var message = {"type": "step", "obs": _observed(), "reward": rewards, "done": done}
	if _argument("ends", "told") == "told":
		message["info"] = info
	return message


func _reward(world):
	var reward = world.reward / (repeat if "push" in world.ACTIONS else 1)
	world.reward = 0.0
	return reward


func decisions_made():
	return decisions


func _fault():
	if not "fault" in arguments or decisions != int(_argument("at", "20")):
		return
	print("the fault ", arguments["fault"], " begins")
	if arguments["fault"] == "exit":
		OS.kill(OS.get_process_id())
	elif arguments["fault"] == "freeze":
		OS.delay_msec(3600000)
	elif arguments["fault"] == "nan":
		worlds[0].reward = sqrt(-1.0)


# ---------------------------------------------------------------- with the network of an exported file


func _play():
	for place in range(worlds.size()):
		var world = worlds[place]
		if tick > 0:
			steps[place] += 1
			totals[place] += _reward(world)
			if world.terminated or steps[place] >= world.LIMIT:
				returns.append(totals[place])
				_begin(place)
		var seen = world.observe()
		var output = network.run(seen["obs"])
		record.append({"obs": seen["obs"], "output": output})
		world.act(_action(world, output))
	if returns.size() >= int(_argument("episodes", "20")):
		var file = _opened(arguments["record"], true)
		file.store_string(json.text({"record": record, "returns": returns, "problem": network.problem}))
		file.close()
		get_tree().quit()
		set_physics_process(false)


# The action of a network's numbers, as the plugin Godot RL Agents reads them.
func _action(world, output):
	if "move" in world.ACTIONS:
		return {"move": output}
	var best = 0
	for option in range(output.size()):
		if output[option] > output[best]:
			best = option
	return {"push": best}


func _text_of(path):
	var file = _opened(path, false)
	var text = file.get_as_text()
	file.close()
	return text


func _opened(path, write):
	return load("res://file%d.gd" % Engine.get_version_info()["major"]).opened(path, write)
