/** Code of cells that use loss.backward() as PyTorch users do; test/data/backward_reference.py has the same cases by the same names. */

/** Defines the functions that all cases use. `wrap` wraps a model; it is applied to each outermost model of a case. */
export const PRELUDE = `
const fill = (module, seed) => {
  const dict = {};
  [...module.namedParameters()].forEach(([name, p], i) => {
    dict[name] = { shape: p.shape, values: Float32Array.from({ length: p.size }, (_, n) => 0.5 * Math.sin(n + seed + i)) };
  });
  module.loadStateDict(dict, { strict: false });
  return module;
};
const linear = (inputs, outputs, seed) => fill(new nn.Linear(inputs, outputs), seed);
const data = (rows, columns, seed) =>
  tf.tensor2d(Float32Array.from({ length: rows * columns }, (_, n) => Math.cos(n + seed)), [rows, columns]);
const square = (x) => x.mul(x).mean();
const step = (...models) => {
  for (const model of models) {
    optim.sgd(model, { lr: 0.1 }).step();
    model.zeroGrad();
  }
};
const encoder = (wrap) => {
  const model = wrap(new nn.Sequential(linear(3, 4, 1), new nn.BatchNorm1d(4), new nn.Tanh(), new nn.Dropout(0.5), linear(4, 4, 6)));
  model.modules().find((module) => module instanceof nn.Dropout).eval();
  for (let i = 0; i < 2; i++) {
    square(model(data(5, 3, i))).backward();
    step(model);
  }
  return model;
};
const deep = (wrap) => wrap(new nn.Sequential(linear(3, 4, 1), new nn.Tanh(), linear(4, 2, 3)));
const judge = (wrap) => wrap(new nn.Sequential(linear(3, 4, 1), new nn.Tanh(), linear(4, 1, 3)));
class Prompted extends nn.Module {
  constructor() {
    super();
    this.prompt = new nn.Parameter(tf.zeros([3]));
    this.body = new nn.Linear(3, 2);
  }
  forward(x) { return this.body(this.prompt.tensor.add(x)); }
}
const penalized = (d, x) => square(tf.norm(tf.grad((at) => d(at).sum())(x), 2, 1).sub(1));
`;

/** The cases. Each is the body of a function of `wrap` that returns models. */
export const CASES: Readonly<Record<string, string>> = {
  adversarial: `
    const [g, d] = [wrap(linear(2, 3, 1)), wrap(linear(3, 1, 2))];
    for (let i = 0; i < 5; i++) {
      const [z, real] = [data(4, 2, i), data(4, 3, 10 + i)];
      const fake = g(z);
      square(d(real).sub(1)).add(square(d(fake.detach()))).backward();
      step(d);
      g.zeroGrad();
      square(d(fake).sub(1)).backward();
      step(g);
    }
    return [g, d];`,
  adversarial_deep: `
    const g = wrap(new nn.Sequential(linear(2, 4, 1), new nn.BatchNorm1d(4), new nn.Tanh(), linear(4, 3, 3)));
    const d = wrap(new nn.Sequential(linear(3, 4, 5), new nn.Tanh(), linear(4, 1, 7)));
    for (let i = 0; i < 5; i++) {
      const [z, real] = [data(4, 2, i), data(4, 3, 10 + i)];
      const fake = g(z);
      for (let k = 0; k < 2; k++) {
        square(d(real).sub(1)).add(square(d(fake.detach()))).backward();
        step(d);
      }
      square(d(fake).sub(1)).backward();
      step(g);
      d.zeroGrad();
    }
    return [g, d];`,
  adversarial_without_detach: `
    const [g, d] = [wrap(linear(2, 3, 1)), wrap(linear(3, 1, 2))];
    const fake = g(data(4, 2, 0));
    square(d(fake)).backward();
    step(d);
    square(d(fake).sub(1)).backward();
    return [g, d];`,
  other_backward_between: `
    const [f, aux, h] = [wrap(linear(3, 4, 1)), wrap(linear(3, 1, 2)), wrap(linear(4, 1, 3))];
    const x = data(5, 3, 0);
    const y = f(x);
    aux(x).sum().backward();
    h(y).sum().backward();
    step(f, aux, h);
    return [f, aux, h];`,
  head_used_twice: `
    const [f, h] = [wrap(linear(3, 4, 1)), wrap(linear(4, 1, 3))];
    const y = f(data(5, 3, 0));
    h(y).sum().backward();
    square(h(y)).backward();
    return [f, h];`,
  encoder_in_evaluation: `
    const [e, h] = [encoder(wrap), wrap(linear(4, 1, 3))];
    e.eval();
    for (let i = 0; i < 3; i++) {
      square(h(tf.relu(e(data(5, 3, 4 + i))))).backward();
      step(e, h);
    }
    return [e, h];`,
  all_in_evaluation: `
    const e = encoder(wrap).eval();
    square(e(data(5, 3, 4))).backward();
    step(e);
    return [e];`,
  two_encoders_in_evaluation: `
    const [e, f, h] = [encoder(wrap).eval(), wrap(linear(3, 4, 8)).eval(), wrap(linear(4, 1, 3))];
    const x = data(5, 3, 4);
    square(h(e(x).mul(f(x)).add(e(x.neg())))).backward();
    step(e, f, h);
    return [e, f, h];`,
  evaluation_after_training_part: `
    const [f, e] = [wrap(linear(3, 3, 9)), encoder(wrap).eval()];
    square(e(f(data(5, 3, 4)))).backward();
    step(f, e);
    return [f, e];`,
  frozen_judge: `
    const [f, j] = [wrap(linear(3, 3, 9)), encoder((m) => m).eval()];
    for (const parameter of j.parameters()) parameter.requiresGrad = false;
    square(j(f(data(5, 3, 4)))).backward();
    step(f);
    return [f, j];`,
  penalty_before_forward: `
    const f = linear(3, 2, 1);
    const penalty = f.weight.tensor.mul(f.weight.tensor).sum();
    f(data(5, 3, 0)).mean().add(penalty).backward();
    step(f);
    return [f];`,
  penalty_alone: `
    const f = linear(3, 2, 1);
    f.weight.tensor.abs().sum().backward();
    step(f);
    return [f];`,
  prompt_before_module: `
    const model = fill(new Prompted(), 1);
    square(model.body(model.prompt.tensor.add(data(5, 3, 0)))).backward();
    step(model);
    return [model];`,
  gradient_penalty: `
    const d = judge((m) => m);
    penalized(d, data(5, 3, 0)).backward();
    step(d);
    return [d];`,
  gradient_penalty_beside_loss: `
    const d = judge((m) => m);
    const x = data(5, 3, 0);
    const loss = d(data(5, 3, 7)).mean();
    loss.add(penalized(d, x)).backward();
    step(d);
    return [d];`,
  siamese: `
    const f = deep(wrap);
    square(f(data(5, 3, 0)).sub(f(data(5, 3, 9)))).backward();
    step(f);
    return [f];`,
  losses_first_then_backwards: `
    const f = deep(wrap);
    const losses = [0, 1, 2, 3].map((i) => square(f(data(5, 3, i))));
    for (const loss of losses) loss.backward();
    step(f);
    return [f];`,
  step_between_forward_and_backward: `
    const f = deep(wrap);
    const [first, second] = [square(f(data(5, 3, 0))), square(f(data(5, 3, 1)))];
    first.backward();
    step(f);
    second.backward();
    return [f];`,
  load_between_forward_and_backward: `
    const f = deep(wrap);
    const loss = square(f(data(5, 3, 0)));
    f.loadStateDict(new Map([...f.stateDict()].map(([name, value]) => [name, value.mul(2)])));
    loss.backward();
    return [f];`,
  state_carried_over_steps: `
    const f = wrap(linear(3, 3, 1));
    let h = data(5, 3, 0);
    for (let i = 0; i < 3; i++) {
      h = tf.tanh(f(h.add(data(5, 3, i))));
      square(h).backward();
      step(f);
    }
    return [f];`,
  state_detached_over_steps: `
    const f = wrap(linear(3, 3, 1));
    let h = data(5, 3, 0);
    for (let i = 0; i < 3; i++) {
      h = tf.tanh(f(h.detach().add(data(5, 3, i))));
      square(h).backward();
      step(f);
    }
    return [f];`,
  metrics_between: `
    const [f, h] = [wrap(linear(3, 4, 1)), wrap(linear(4, 1, 3))];
    for (let i = 0; i < 4; i++) {
      const logits = f(data(5, 3, i));
      const probabilities = tf.softmax(logits);
      square(h(tf.tanh(logits))).backward();
      step(f, h);
      if (!Number.isFinite(probabilities.mul(logits).sum().item())) throw new Error('the metric is not finite');
    }
    return [f, h];`,
  loss_of_kept_part: `
    const [f, g, h] = [wrap(linear(3, 4, 1)), wrap(linear(3, 4, 2)), wrap(linear(4, 1, 3))];
    const x = data(5, 3, 0);
    const [a, b] = [f(x), g(x)];
    square(h(a)).backward();
    h.zeroGrad();
    square(h(b)).backward();
    step(f, g, h);
    return [f, g, h];`,
  alternating_freezing: `
    const [g, d] = [linear(2, 3, 1), linear(3, 1, 2)];
    for (let i = 0; i < 3; i++) {
      for (const parameter of d.parameters()) parameter.requiresGrad = true;
      square(d(data(4, 3, 10 + i)).sub(1)).add(square(d(g(data(4, 2, i)).detach()))).backward();
      step(d);
      for (const parameter of d.parameters()) parameter.requiresGrad = false;
      square(d(g(data(4, 2, i))).sub(1)).backward();
      step(g);
    }
    return [g, d];`,
  frozen_between_forward_and_backward: `
    const [f, h] = [linear(3, 4, 1), linear(4, 1, 3)];
    const loss = square(h(tf.tanh(f(data(5, 3, 0)))));
    for (const parameter of h.parameters()) parameter.requiresGrad = false;
    loss.backward();
    for (const parameter of h.parameters()) parameter.requiresGrad = true;
    step(f, h);
    return [f, h];`,
  gradient_of_input: `
    const f = deep(wrap);
    const x = new nn.Parameter(data(5, 3, 0));
    square(f(x.tensor)).backward();
    return [{ stateDict: () => new Map([['x', x.grad]]) }];`,
  penalty_averaged_over_ranks: `
    const d = judge((m) => m);
    for (let i = 0; i < 2; i++) {
      const x = data(5, 3, 10 * i + rank);
      d(x).mean().add(penalized(d, x)).backward();
      for (const p of d.parameters()) if (p.grad !== null) dist.allReduce(p.grad, dist.ReduceOp.AVG);
      step(d);
    }
    return [d];`,
  snapshots_by_clone: `
    const f = deep((m) => m);
    const first = f.modules()[1].weight;
    const before = first.tensor.clone();
    square(f(data(5, 3, 0))).backward();
    const gradient = first.grad.clone();
    square(f(data(5, 3, 1))).backward();
    optim.clipGradNorm(f, 0.01);
    step(f);
    first.grad = gradient.add(before);
    step(f);
    return [f];`,
};
