"use strict";
// The tasks of Gymnasium's classic control that a page can play, with the equations of its environments.
//
// A state is an array of numbers. A discrete action is the number of an option, a continuous one an array of numbers.
//   fps            steps of a second, those of Gymnasium's films
//   limit          steps after which Gymnasium ends an episode
//   reset()        a first state, drawn as Gymnasium draws it
//   observe(state) what the policy sees
//   step(state, action)    {state, reward, terminated}
//   push(state, direction) the state after a push to the left (-1) or to the right (1)
//   describe(action)       the action in words

const clip = (value, low, high) => Math.min(Math.max(value, low), high);
const uniform = (low, high) => low + (high - low) * Math.random();
const remainder = (value, divisor) => value - divisor * Math.floor(value / divisor); // of the sign of the divisor
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);

const CartPole = {
  fps: 50,
  limit: 500,
  reset: () => [0, 0, 0, 0].map(() => uniform(-0.05, 0.05)),
  observe: (state) => state,
  step([x, speed, angle, turning], action) {
    const gravity = 9.8;
    const poleMass = 0.1;
    const mass = 1.1; // of cart and pole
    const half = 0.5; // of the pole's length
    const seconds = 0.02;
    const force = action === 1 ? 10 : -10;
    const cos = Math.cos(angle);
    const sin = Math.sin(angle);
    const pushed = (force + poleMass * half * turning ** 2 * sin) / mass;
    const angular = (gravity * sin - cos * pushed) / (half * (4 / 3 - (poleMass * cos ** 2) / mass));
    const linear = pushed - (poleMass * half * angular * cos) / mass;
    const state = [
      x + seconds * speed,
      speed + seconds * linear,
      angle + seconds * turning,
      turning + seconds * angular,
    ];
    const terminated = Math.abs(state[0]) > 2.4 || Math.abs(state[2]) > (12 * 2 * Math.PI) / 360;
    return { state, reward: 1, terminated };
  },
  push: ([x, speed, angle, turning], direction) => [x, speed, angle, turning + 0.6 * direction],
  describe: (action) => (action === 1 ? "push the cart right" : "push the cart left"),
};

const Pendulum = {
  fps: 30,
  limit: 200,
  reset: () => [uniform(-Math.PI, Math.PI), uniform(-1, 1)],
  observe: ([angle, turning]) => [Math.cos(angle), Math.sin(angle), turning],
  step([angle, turning], [action]) {
    const gravity = 10;
    const seconds = 0.05;
    const torque = clip(action, -2, 2);
    const fromTop = remainder(angle + Math.PI, 2 * Math.PI) - Math.PI;
    const cost = fromTop ** 2 + 0.1 * turning ** 2 + 0.001 * torque ** 2;
    const faster = clip(turning + (1.5 * gravity * Math.sin(angle) + 3 * torque) * seconds, -8, 8);
    return { state: [angle + faster * seconds, faster], reward: -cost, terminated: false };
  },
  push: ([angle, turning], direction) => [angle, clip(turning - 4 * direction, -8, 8)],
  describe: ([action]) => `torque ${signed(clip(action, -2, 2))}`,
};

const Acrobot = {
  fps: 15,
  limit: 500,
  reset: () => [0, 0, 0, 0].map(() => Math.fround(uniform(-0.1, 0.1))),
  observe: ([first, second, turning1, turning2]) => [
    Math.cos(first), Math.sin(first), Math.cos(second), Math.sin(second), turning1, turning2,
  ],
  // Time derivative of the state: two links of length and mass 1, with the center of mass in the middle and a moment of
  // inertia of 1, as in Sutton and Barto's book.
  derivative([first, second, turning1, turning2], torque) {
    const gravity = 9.8;
    const d1 = 0.25 + (1 + 0.25 + Math.cos(second)) + 2;
    const d2 = 0.25 + 0.5 * Math.cos(second) + 1;
    const phi2 = 0.5 * gravity * Math.cos(first + second - Math.PI / 2);
    const phi1 =
      -0.5 * turning2 ** 2 * Math.sin(second) -
      turning2 * turning1 * Math.sin(second) +
      1.5 * gravity * Math.cos(first - Math.PI / 2) +
      phi2;
    const accelerated2 =
      (torque + (d2 / d1) * phi1 - 0.5 * turning1 ** 2 * Math.sin(second) - phi2) / (1.25 - d2 ** 2 / d1);
    const accelerated1 = -(d2 * accelerated2 + phi1) / d1;
    return [turning1, turning2, accelerated1, accelerated2];
  },
  step(state, action) {
    const seconds = 0.2;
    const torque = action - 1;
    const moved = (slope, time) => state.map((value, i) => value + time * slope[i]);
    const k1 = Acrobot.derivative(state, torque); // the four slopes of the classic Runge-Kutta method
    const k2 = Acrobot.derivative(moved(k1, seconds / 2), torque);
    const k3 = Acrobot.derivative(moved(k2, seconds / 2), torque);
    const k4 = Acrobot.derivative(moved(k3, seconds), torque);
    const slope = k1.map((_, i) => (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) / 6);
    const [first, second, turning1, turning2] = moved(slope, seconds);
    const next = [
      Acrobot.wrapped(first),
      Acrobot.wrapped(second),
      clip(turning1, -4 * Math.PI, 4 * Math.PI),
      clip(turning2, -9 * Math.PI, 9 * Math.PI),
    ];
    const terminated = -Math.cos(next[0]) - Math.cos(next[1] + next[0]) > 1;
    return { state: next, reward: terminated ? 0 : -1, terminated };
  },
  wrapped(angle) {
    while (angle > Math.PI) angle -= 2 * Math.PI;
    while (angle < -Math.PI) angle += 2 * Math.PI;
    return angle;
  },
  push: ([first, second, turning1, turning2], direction) => [first, second, turning1 + 2 * direction, turning2],
  describe: (action) => ["torque −1", "no torque", "torque +1"][action],
};

const MountainCar = {
  fps: 30,
  limit: 200,
  goal: 0.5,
  reset: () => [uniform(-0.6, -0.4), 0],
  observe: (state) => state,
  moved([position, velocity], acceleration) {
    const faster = clip(velocity + acceleration - 0.0025 * Math.cos(3 * position), -0.07, 0.07);
    const moved = clip(position + faster, -1.2, 0.6);
    return [moved, moved === -1.2 && faster < 0 ? 0 : faster];
  },
  step(state, action) {
    const [position, velocity] = MountainCar.moved(state, (action - 1) * 0.001);
    const terminated = position >= MountainCar.goal && velocity >= 0;
    return { state: [position, velocity], reward: -1, terminated };
  },
  push: ([position, velocity], direction) => [position, clip(velocity + 0.02 * direction, -0.07, 0.07)],
  describe: (action) => ["accelerate left", "coast", "accelerate right"][action],
};

const MountainCarContinuous = {
  ...MountainCar,
  limit: 999,
  goal: 0.45,
  step(state, [action]) {
    const [position, velocity] = MountainCar.moved(state, clip(action, -1, 1) * 0.0015);
    const terminated = position >= MountainCarContinuous.goal && velocity >= 0;
    const reward = (terminated ? 100 : 0) - 0.1 * action ** 2;
    return { state: [Math.fround(position), Math.fround(velocity)], reward, terminated };
  },
  describe: ([action]) => `force ${signed(clip(action, -1, 1))}`,
};

const TASKS = {
  "Acrobot-v1": Acrobot,
  "CartPole-v1": CartPole,
  "MountainCar-v0": MountainCar,
  "MountainCarContinuous-v0": MountainCarContinuous,
  "Pendulum-v1": Pendulum,
};
