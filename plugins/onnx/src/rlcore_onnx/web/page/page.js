// Plays the policy in the task of this page, and compares both with what Python recorded.

const data = JSON.parse(document.getElementById("data").textContent);
const task = TASKS[data.environment];
const drawing = DRAWINGS[data.environment];
const element = (id) => document.getElementById(id);
const canvas = element("picture");
const root = document.documentElement;
const PAUSE_BETWEEN_EPISODES = 1000; // milliseconds

// ---------------------------------------------------------------- what is embedded in the page

function embedded(id) {
  const text = element(id).textContent;
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

async function unzipped(id) {
  const stream = new Blob([embedded(id)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function openRuntime() {
  const module = new Blob([await unzipped("runtime-module")], { type: "text/javascript" });
  const address = URL.createObjectURL(module);
  const runtime = await import(address);
  URL.revokeObjectURL(address);
  runtime.env.wasm.numThreads = 1; // threads need a server that isolates the page
  runtime.env.wasm.wasmBinary = await unzipped("runtime-binary");
  return runtime;
}

// ---------------------------------------------------------------- the policy

class Policy {
  constructor(runtime, session) {
    const { behavior, inputs, outputs } = data.metadata;
    this.runtime = runtime;
    this.session = session;
    this.observation = behavior.observations[0].input;
    this.inputs = inputs;
    this.outputs = outputs;
    this.options = behavior.discrete[0] ?? 0;
    this.memorySize = behavior.memory_size;
    const wanted = [outputs.deterministic_continuous, outputs.deterministic_discrete, outputs.memory, data.logits];
    this.wanted = wanted.filter((name) => name !== null);
    this.forget();
  }

  static async open() {
    const runtime = await openRuntime();
    const session = await runtime.InferenceSession.create(embedded("model"), { executionProviders: ["wasm"] });
    return new Policy(runtime, session);
  }

  forget() {
    this.memory = new Float32Array(this.memorySize);
  }

  // Returns the action, and the numbers that are compared with Python's.
  async act(observation) {
    const { Tensor } = this.runtime;
    const feeds = { [this.observation]: new Tensor("float32", Float32Array.from(observation), [1, observation.length]) };
    if (this.inputs.action_mask !== null) {
      const allowed = new Uint8Array(this.options).fill(1);
      feeds[this.inputs.action_mask] = new Tensor("bool", allowed, [1, this.options]);
    }
    if (this.inputs.memory !== null) feeds[this.inputs.memory] = new Tensor("float32", this.memory, [1, this.memorySize]);
    if (this.inputs.epsilon !== null) {
      const size = this.inputs.epsilon_size;
      feeds[this.inputs.epsilon] = new Tensor("float32", new Float32Array(size), [1, size]);
    }
    const results = await this.session.run(feeds, this.wanted);
    if (this.outputs.memory !== null) this.memory = Float32Array.from(results[this.outputs.memory].data);
    if (this.outputs.deterministic_continuous !== null) {
      const action = Array.from(results[this.outputs.deterministic_continuous].data);
      return { action, numbers: action };
    }
    const action = Number(results[this.outputs.deterministic_discrete].data[0]);
    return { action, numbers: data.logits === null ? [] : Array.from(results[data.logits].data) };
  }
}

// ---------------------------------------------------------------- comparison with Python

function largestDifference(found, expected) {
  let largest = found.length === expected.length ? 0 : Infinity;
  expected.forEach((value, i) => {
    const difference = Math.abs(found[i] - value) / Math.max(1, Math.abs(value));
    if (!(difference <= largest)) largest = difference; // also for NaN
  });
  return largest;
}

async function comparePolicy(policy) {
  let largest = 0;
  let others = 0;
  policy.forget();
  for (const step of data.recorded) {
    const { action, numbers } = await policy.act(step.observation);
    largest = Math.max(largest, largestDifference(numbers, step.numbers));
    const tied = numbers.length > 0 && Math.abs(numbers[action] - numbers[step.action]) <= data.tolerance;
    if (typeof action === "number" && action !== step.action && !tied) others += 1;
  }
  policy.forget();
  return { largest, others, good: largest <= data.tolerance && others === 0 };
}

function compareTask() {
  let largest = 0;
  let endings = 0;
  for (const step of data.recorded) {
    largest = Math.max(largest, largestDifference(task.observe(step.state), step.observation));
    const next = task.step(step.state, step.action);
    largest = Math.max(largest, largestDifference([...next.state, next.reward], [...step.next, step.reward]));
    if (next.terminated !== step.terminated) endings += 1;
  }
  return { largest, endings, good: largest <= 1e-6 && endings === 0 };
}

function show(id, result, text) {
  element(id).className = result.good ? "good" : "bad";
  element(id).textContent = text;
  element(id).dataset.difference = String(result.largest);
}

async function compare(policy) {
  const steps = data.recorded.length;
  const found = await comparePolicy(policy);
  const others = found.others ? ` It chooses another option for ${found.others} of them.` : "";
  show(
    "policy-check", found,
    `Policy: differs from the policy in Python by at most ${found.largest.toExponential(1)} ` +
      `for ${steps} recorded observations (allowed: ${data.tolerance.toExponential(0)}).${others}`,
  );
  const played = compareTask();
  show(
    "task-check", played,
    `Task: differs from Gymnasium ${data.gymnasium} by at most ${played.largest.toExponential(1)} ` +
      `in ${steps} recorded steps (allowed: 1e-6).`,
  );
}

// ---------------------------------------------------------------- the picture

function colors() {
  const style = getComputedStyle(root);
  const names = ["accent", "body", "joint", "force", "ground"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function draw(state, action) {
  const pixels = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * pixels);
  const height = Math.round(canvas.clientHeight * pixels);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const [left, right, bottom, top] = drawing.view;
  const scale = Math.min(width / (right - left), height / (top - bottom));
  const c = canvas.getContext("2d");
  c.setTransform(1, 0, 0, 1, 0, 0);
  c.clearRect(0, 0, width, height);
  c.setTransform(scale, 0, 0, -scale, width / 2 - (scale * (left + right)) / 2, height / 2 + (scale * (bottom + top)) / 2);
  drawing.draw(c, colors(), state, action, task);
}

function follow(scheme) {
  const chosen = location.hash.slice(1); // a page that has this one in a frame may add #dark or #light
  const dark = chosen === "dark" || (chosen !== "light" && scheme.matches);
  root.dataset.theme = dark ? "dark" : "light";
}

// ---------------------------------------------------------------- the game

const figure = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(1)).replace("-", "−");

class Game {
  constructor(policy) {
    this.policy = policy;
    this.paused = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.due = 0;
    this.pushes = 0;
    this.begin();
    element("pause").onclick = () => this.pause();
    element("reset").onclick = () => this.begin();
    element("left").onclick = () => this.push(-1);
    element("right").onclick = () => this.push(1);
    document.addEventListener("keydown", (event) => this.press(event));
    for (const button of document.querySelectorAll("button")) button.disabled = false;
    this.show();
    requestAnimationFrame((now) => this.frame(now));
  }

  begin() {
    this.policy.forget();
    this.state = task.reset();
    this.action = null;
    this.steps = 0;
    this.sum = 0;
    this.over = false;
    this.started = (this.started ?? 0) + 1;
    this.say("");
    this.show();
  }

  pause() {
    this.paused = !this.paused;
    this.show();
  }

  push(direction) {
    if (this.over) return;
    this.state = task.push(this.state, direction);
    this.pushes += 1;
    this.show();
  }

  press(event) {
    const onButton = event.target instanceof HTMLButtonElement;
    const actions = {
      " ": () => this.pause(),
      r: () => this.begin(),
      R: () => this.begin(),
      ArrowLeft: () => this.push(-1),
      ArrowRight: () => this.push(1),
    };
    if (!(event.key in actions) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (onButton && event.key === " ") return; // which presses the button
    event.preventDefault();
    actions[event.key]();
  }

  async step() {
    const episode = this.started;
    const pushes = this.pushes;
    const { action } = await this.policy.act(task.observe(this.state));
    if (episode !== this.started || pushes !== this.pushes) return; // the state is another one by now
    const { state, reward, terminated } = task.step(this.state, action);
    this.state = state;
    this.action = action;
    this.steps += 1;
    this.sum += reward;
    this.say(task.describe(action));
    if (terminated || this.steps >= task.limit) this.end(terminated);
    this.show();
  }

  end(terminated) {
    this.over = true;
    this.say(terminated ? `Episode over after ${this.steps} steps` : `Episode over: ${task.limit} steps are the limit`);
    element("last").textContent = figure(this.sum);
  }

  async frame(now) {
    if (!this.paused && now >= this.due) {
      if (this.over) this.begin();
      else await this.step();
      const wait = this.over ? PAUSE_BETWEEN_EPISODES : 1000 / task.fps;
      this.due = Math.max(this.due + wait, now); // a slow computer plays slower, and catches nothing up
      if (this.over) this.due = now + wait;
    }
    requestAnimationFrame((next) => this.frame(next).catch(fail));
  }

  say(text) {
    element("message").textContent = text;
  }

  show() {
    draw(this.state, this.action);
    element("return").textContent = figure(this.sum);
    element("step").innerHTML = `${this.steps} <small>of ${task.limit}</small>`;
    element("pause").textContent = this.paused ? "Play" : "Pause";
  }
}

// ---------------------------------------------------------------- the page

function describe() {
  const { trainer_type: trainer, step, run_id: run, rlcore_version: version } = data.metadata;
  root.classList.toggle("framed", window.self !== window.top);
  element("environment").textContent = data.environment;
  element("origin").textContent = `Policy by ${trainer} after ${step.toLocaleString("en")} steps · run ${run}`;
  element("score-of").textContent = `Mean of ${data.score.episodes} episodes`;
  element("score").textContent = figure(Math.round(data.score.mean * 10) / 10);
  element("score-of").title = "Played in Python when this page was made";
  element("made").textContent =
    `Made with rlcore export --format web, rlcore ${version}. The policy is an ONNX file in this page, computed by ` +
    `onnxruntime-web ${data.runtime} (MIT License, Microsoft Corporation). The page requests nothing from any server.`;
  canvas.setAttribute("aria-label", `The policy plays ${data.environment}`);
}

function fail(error) {
  element("message").className = "bad";
  element("message").textContent = `The policy cannot be played in this browser: ${error}`;
  throw error;
}

async function main() {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  follow(scheme);
  describe();
  draw(task.reset(), null);
  const policy = await Policy.open();
  await compare(policy);
  const game = new Game(policy);
  const redraw = () => {
    follow(scheme);
    game.show();
  };
  scheme.addEventListener("change", redraw);
  window.addEventListener("hashchange", redraw);
  window.addEventListener("resize", redraw);
}

main().catch(fail);
