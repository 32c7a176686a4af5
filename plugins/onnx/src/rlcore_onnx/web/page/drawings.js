"use strict";
// Pictures of the tasks. The canvas has the units of the task, and y points up.
//   view     left, right, bottom and top of what is shown
//   draw(c, colors, state, action, task)   draws on the context c; action is null before the first step

function line(c, color, width, ...points) {
  c.strokeStyle = color;
  c.lineWidth = width;
  c.lineCap = "round";
  c.lineJoin = "round";
  c.beginPath();
  for (const [x, y] of points) c.lineTo(x, y);
  c.stroke();
}

function disk(c, color, x, y, radius) {
  c.fillStyle = color;
  c.beginPath();
  c.arc(x, y, radius, 0, 2 * Math.PI);
  c.fill();
}

function box(c, color, x, y, width, height, radius) {
  c.fillStyle = color;
  c.beginPath();
  c.roundRect(x, y, width, height, radius);
  c.fill();
}

// An arrow along the x axis from (x, y) to (x + length, y).
function arrow(c, color, x, y, length, width) {
  if (Math.abs(length) < 2 * width) return;
  const end = x + length;
  const back = end - Math.sign(length) * 2.5 * width;
  line(c, color, width, [x, y], [end, y]);
  line(c, color, width, [back, y + 2 * width], [end, y], [back, y - 2 * width]);
}

// An arrow around (x, y) from the top, counterclockwise for a positive angle.
function turn(c, color, x, y, radius, angle, width) {
  if (Math.abs(angle) < 0.3) return; // shorter than its point
  const start = Math.PI / 2;
  const end = start + angle;
  c.strokeStyle = color;
  c.lineWidth = width;
  c.lineCap = "round";
  c.beginPath();
  c.arc(x, y, radius, start, end, angle < 0);
  c.stroke();
  const tip = [x + radius * Math.cos(end), y + radius * Math.sin(end)];
  const behind = end - Math.sign(angle) * 0.25;
  const inside = radius - 2 * width;
  const outside = radius + 2 * width;
  line(
    c, color, width,
    [x + inside * Math.cos(behind), y + inside * Math.sin(behind)], tip,
    [x + outside * Math.cos(behind), y + outside * Math.sin(behind)],
  );
}

const cartPoleDrawing = {
  view: [-2.7, 2.7, -0.55, 1.45],
  draw(c, colors, [x, , angle], action) {
    line(c, colors.ground, 0.02, [-2.4, -0.2], [2.4, -0.2]);
    for (const end of [-2.4, 2.4]) line(c, colors.ground, 0.02, [end, -0.32], [end, -0.08]);
    box(c, colors.body, x - 0.27, -0.16, 0.54, 0.26, 0.05);
    for (const side of [-0.16, 0.16]) disk(c, colors.joint, x + side, -0.16, 0.07);
    line(c, colors.accent, 0.1, [x, 0.06], [x + Math.sin(angle), 0.06 + Math.cos(angle)]);
    disk(c, colors.joint, x, 0.06, 0.045);
    if (action !== null) {
      const direction = action === 1 ? 1 : -1;
      arrow(c, colors.force, x + 0.34 * direction, -0.03, 0.3 * direction, 0.03);
    }
  },
};

const pendulumDrawing = {
  view: [-1.35, 1.35, -1.25, 1.25],
  draw(c, colors, [angle], action) {
    line(c, colors.ground, 0.015, [-0.25, 0], [0.25, 0]);
    line(c, colors.accent, 0.16, [0, 0], [-Math.sin(angle), Math.cos(angle)]);
    disk(c, colors.joint, 0, 0, 0.055);
    if (action !== null) turn(c, colors.force, 0, 0, 0.4, action[0], 0.025);
  },
};

const acrobotDrawing = {
  view: [-2.5, 2.5, -2.2, 2.2],
  draw(c, colors, [first, second], action) {
    const elbow = [Math.sin(first), -Math.cos(first)];
    const hand = [elbow[0] + Math.sin(first + second), elbow[1] - Math.cos(first + second)];
    line(c, colors.ground, 0.02, [-2.3, 1], [2.3, 1]);
    line(c, colors.body, 0.17, [0, 0], elbow);
    line(c, colors.accent, 0.17, elbow, hand);
    disk(c, colors.joint, 0, 0, 0.07);
    disk(c, colors.joint, elbow[0], elbow[1], 0.07);
    if (action !== null) turn(c, colors.force, elbow[0], elbow[1], 0.32, 1.2 * (action - 1), 0.035);
  },
};

const mountainCarDrawing = {
  view: [-1.27, 0.67, -0.02, 1.3],
  height: (x) => 0.45 * Math.sin(3 * x) + 0.55,
  draw(c, colors, [position], action, task) {
    const height = mountainCarDrawing.height;
    const hill = [];
    for (let x = -1.2; x <= 0.6001; x += 0.01) hill.push([x, height(x)]);
    line(c, colors.ground, 0.01, ...hill);
    const foot = height(task.goal);
    line(c, colors.joint, 0.008, [task.goal, foot], [task.goal, foot + 0.17]);
    c.fillStyle = colors.force;
    c.beginPath();
    for (const [x, y] of [[0, 0.17], [0.09, 0.14], [0, 0.11]]) c.lineTo(task.goal + x, foot + y);
    c.fill();
    c.save();
    c.translate(position, height(position));
    c.rotate(Math.atan(1.35 * Math.cos(3 * position)));
    box(c, colors.accent, -0.065, 0.022, 0.13, 0.05, 0.015);
    for (const side of [-0.035, 0.035]) disk(c, colors.joint, side, 0.02, 0.02);
    if (action !== null) {
      const force = typeof action === "number" ? action - 1 : action[0];
      arrow(c, colors.force, 0, 0.11, 0.1 * force, 0.011);
    }
    c.restore();
  },
};

const DRAWINGS = {
  "Acrobot-v1": acrobotDrawing,
  "CartPole-v1": cartPoleDrawing,
  "MountainCar-v0": mountainCarDrawing,
  "MountainCarContinuous-v0": mountainCarDrawing,
  "Pendulum-v1": pendulumDrawing,
};
