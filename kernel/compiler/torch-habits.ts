/** What to write in place of a function of torch; the key is its name in torch. */
const FUNCTIONS: Readonly<Record<string, string>> = {
  tensor: 'tf.tensor([[1, 2], [3, 4]])',
  randn: 'tf.randomNormal([2, 3])',
  rand: 'tf.randomUniform([2, 3])',
  randint: "tf.randomUniform([2, 3], 0, 10, 'int32')",
  zeros: 'tf.zeros([2, 3])',
  ones: 'tf.ones([2, 3])',
  arange: 'tf.range(0, 10)',
  cat: 'tf.concat([a, b], 1)',
  stack: 'tf.stack([a, b])',
  matmul: 'tf.matMul(a, b)',
  manual_seed: 'model.manualSeed(0)',
  no_grad: 'the call without gradients(…), which alone records operations',
  save: "await saveCheckpoint(model, optimizer, 'folder')",
  load: "await loadCheckpoint(model, optimizer, 'folder')",
  nn: 'nn',
  optim: 'optim',
  distributed: 'dist',
};

const DEVICE = 'Leave it out: models and tensors are on the rank’s engine from the start';

/** Advice about names that a reader of PyTorch or Python types. */
const NAMES: Readonly<Record<string, string>> = {
  F: 'The functions are in nn.functional: write const F = nn.functional',
  np: 'Tensors are in tf: np.zeros((2, 3)) is tf.zeros([2, 3])',
  device: DEVICE,
  print: 'Write console.log(x)',
  len: 'Write x.length, or x.shape[0] for a tensor',
  self: 'Write this',
  None: 'Write null',
  True: 'Write true',
  False: 'Write false',
};

/** Advice about members of models, tensors and optimizers that only PyTorch has. */
const MEMBERS: Readonly<Record<string, string>> = {
  to: DEVICE,
  cuda: DEVICE,
  cpu: DEVICE,
  backward: 'It is a method of the loss: const loss = model(x, y); loss.backward()',
  zero_grad: 'Write optimizer.zeroGrad()',
  item: 'Write loss.dataSync()[0]',
  numpy: 'Write x.dataSync(), or x.arraySync() for nested arrays',
  tolist: 'Write x.arraySync()',
  detach: 'Leave it out: after backward, no gradient flows into a tensor',
  view: 'Write tf.reshape(x, shape)',
  permute: 'Write tf.transpose(x, order)',
  unsqueeze: 'Write tf.expandDims(x, axis)',
  half: 'Write mixedPrecision: MixedPrecision({ paramDtype: ‘fp16’ }) in FSDP’s options',
};

/** Returns advice about an unknown name; `after` is the source behind it. */
export function adviceOnName(name: string, after: string): string | undefined {
  if (name !== 'torch') return said(NAMES, name);
  const member = /^\.(\w+)/.exec(after)?.[1] ?? '';
  const here = said(FUNCTIONS, member);
  return here === undefined
    ? 'The names of PyTorch that exist here are in nn, optim and dist; operations on tensors are in tf'
    : `torch.${member} is ${here} here`;
}

/** Returns advice about a member that a type does not have; `message` is the checker's. */
export function adviceOnMember(name: string, message: string): string | undefined {
  // A type with a name: not a text, a number or an object literal.
  if (!/on type '(typeof )?[A-Z]/.test(message)) return undefined;
  const advice = said(MEMBERS, name);
  if (advice !== undefined || !/^[a-z]+(_[a-z0-9]+)+_?$/.test(name) || message.includes('Did you mean'))
    return advice;
  const camel = name.replace(/_+([a-z0-9]?)/g, (_, letter: string) => letter.toUpperCase());
  return `Names are written without underscores here: ${camel}`;
}

function said(table: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
