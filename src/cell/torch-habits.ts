/** The code to write in place of a function of torch, by the function's name. */
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
  no_grad: 'model.eval() (later calls of the model store no activations), or x.detach()',
  save: "await saveCheckpoint(model, optimizer, 'folder')",
  load: "await loadCheckpoint(model, optimizer, 'folder')",
  nn: 'nn',
  optim: 'optim',
  distributed: 'dist',
  flatten: 'x.flatten(1)',
};

const FILES =
  'job.train reads files and folders of images: write data: ‘./images’; in a %%ranks cell, write const loader = await dataLoader(‘./images’)';
const DEVICE = 'Leave it out: models and tensors are on the rank’s engine from the start';

/** Advice about names that a user of PyTorch may type; python-habits.ts has those of Python. */
const NAMES: Readonly<Record<string, string>> = {
  F: 'The functions are in nn.functional: write const F = nn.functional',
  np: 'Tensors are in tf: np.zeros((2, 3)) is tf.zeros([2, 3])',
  device: DEVICE,
  DataLoader: FILES,
  Dataset: FILES,
  ImageFolder: FILES,
  datasets: FILES,
  torchvision: FILES,
};

/** Advice about members of models, tensors and optimizers that only PyTorch has. */
const MEMBERS: Readonly<Record<string, string>> = {
  to: DEVICE,
  cuda: DEVICE,
  cpu: DEVICE,
  backward: 'It is a method of the loss: const loss = model(x, y); loss.backward()',
  zero_grad: 'Write optimizer.zeroGrad()',
  numpy: 'Write x.dataSync(), or x.arraySync() for nested arrays',
  tolist: 'Write x.arraySync()',
  model:
    'A run’s model is in the ranks: write await run.save(‘folder’), and in a %%ranks cell const net = new Net(); await loadCheckpoint(net, null, ‘folder’)',
  size: 'Write x.shape[0] for the size of a dim',
  numel: 'Write x.size',
  dim: 'Write x.rank',
  view: 'Write x.reshape([2, -1]), or x.flatten(1)',
  permute: 'Write x.transpose([0, 2, 3, 1])',
  unsqueeze: 'Write x.expandDims(1)',
  Transformer:
    'A causal mask is an option of nn.MultiheadAttention’s call: attention(x, x, x, { isCausal: true })',
  half: 'Write mixedPrecision: MixedPrecision({ paramDtype: ‘fp16’ }) in FSDP’s options',
};

/** Where names are that `sl` had at its top level. */
const MOVED: Readonly<Record<string, string>> = {
  dryRun: 'Write sl.plan(config, { gpus: 8 }, { count: true })',
  whatIf: 'Write sl.plan(config, place).whatIf({ tp: [1, 2] })',
  scaling:
    'Write sl.plan(config, place).scaling({ counts: [8, 16] }), or sl.compare(plans, ‘scaling’, { counts: [8, 16] })',
  traffic: 'Write sl.plan(config, place).traffic()',
  comparePlans: 'Write sl.compare(plans, ‘time’)',
  accuracy: 'Write sl.planner.accuracy()',
  advice: 'Write sl.planner.advice()',
  predictions: 'Write await sl.planner.predictions()',
  reproduce: 'Write sl.planner.reproduce()',
  claim: 'Write sl.claims({ id, says, found })',
  createFigure: 'Write sl.plot({ title, data })',
};

/**
 * Settings of job.train that have another name in torch. The table of settings has these names too, but the table's packages
 * are not in the compiler's snapshot ([Note: compiler snapshot]).
 */
const SETTINGS: Readonly<Record<string, string>> = {
  batchSize: 'batch',
  learningRate: 'optimizer: { lr }',
  lr: 'optimizer: { lr }',
  epochs: 'steps',
  strategy: 'parallel: { strategy }',
};

/** Returns advice about an unknown name in a cell's source; `before` and `after` are the text around the name. */
export function adviceOnName(name: string, before: string, after: string): string | undefined {
  if (/^\s*=(?![=>])/.test(after)) return adviceOnAssignment(name, before);
  if (name !== 'torch') return said(NAMES, name);
  const member = /^\.(\w+)/.exec(after)?.[1] ?? '';
  const here = said(FUNCTIONS, member);
  return here === undefined
    ? 'The names of PyTorch that exist here are in nn, optim and dist; operations on tensors are in tf'
    : `torch.${member} is ${here} here`;
}

function adviceOnAssignment(name: string, before: string): string {
  const field = camelCase(name);
  return /[(,]\s*$/.test(before)
    ? `Keyword arguments are fields of one object, which is the last argument: { ${field}: … }`
    : `Declare a new variable: const ${field} = …`;
}

/**
 * Returns advice about an operator between values; `message` is the type checker's message, `before` and `after` are the text
 * around the operand that the message is about.
 */
export function adviceOnOperator(message: string, before: string, after: string): string | undefined {
  const both = /^Operator '(\S+)' cannot be applied to types? ('.*')/.exec(message);
  if (both !== null && !/\b(Tensor([1-6]D)?|Variable)\b/.test(both[2] ?? '')) return undefined;
  // The messages about arithmetic name no types.
  const written = message.startsWith('The left-hand')
    ? /^\s*(\*\*=?|[-*/%]=?)/.exec(after)
    : /(\*\*=?|[-*/%]=?)\s*$/.exec(before);
  const method = said(OPERATORS, (both ?? written)?.[1] ?? '');
  return method && `Tensors have methods in place of operators: write a.${method}(b)`;
}

/** Methods of tensors, by the operator that a user of PyTorch may write. */
const OPERATORS: Readonly<Record<string, string>> = {
  '+': 'add',
  '-': 'sub',
  '*': 'mul',
  '/': 'div',
  '**': 'pow',
  '%': 'mod',
  '**=': 'pow',
  '%=': 'mod',
  '+=': 'add',
  '-=': 'sub',
  '*=': 'mul',
  '/=': 'div',
  '<': 'less',
  '>': 'greater',
  '<=': 'lessEqual',
  '>=': 'greaterEqual',
};

/** Returns advice about a value whose type does not fit; `message` is the type checker's message. */
export function adviceOnType(message: string): string | undefined {
  if (message.includes('{ layerCls: string[]; }')) return 'Classes of modules are { layerCls: [‘Block’] }';
  if (!/Type 'string' is not assignable to type '(\w+ \| )?"/.test(message)) return undefined;
  return 'In an object that is assigned to a variable, a field such as kind may have any text: write, for example, kind: ‘adam’ as const';
}

/** Returns advice about a key that an object may not have; `message` is the type checker's message. */
export function adviceOnKey(name: string, message: string): string | undefined {
  const setting = said(SETTINGS, camelCase(name));
  return setting === undefined || !message.includes("'TrainInput<") ? undefined : `Write ${setting}`;
}

/** Returns advice about an error that a cell's code threw when it ran. */
export function adviceOnTypeError(message: string): string | undefined {
  const name = /\.(\w+) is not a function$/.exec(message)?.[1];
  return name === undefined ? undefined : said(MEMBERS, name);
}

/** Returns advice about a member that a type does not have; `message` is the type checker's message. */
export function adviceOnMember(name: string, message: string, after = ''): string | undefined {
  // The advice is only for types that have a name, not for texts, numbers and object literals.
  if (!/on type '(typeof )?(import\(|[A-Z])/.test(message)) return undefined;
  if (/^\s*=\s*(new )?nn\./.test(after))
    return `Declare the field in the class: ${name} = new nn.Linear(7, 13), or, if the constructor assigns it, only the name: ‘${name};’`;
  const moved = /\/src\/index("|')/.test(message) ? said(MOVED, name) : undefined;
  const advice = moved ?? said(MEMBERS, name);
  if (advice !== undefined || !/^[a-z]+(_[a-z0-9]+)+_?$/.test(name) || message.includes('Did you mean'))
    return advice;
  return `Names are written without underscores here: ${camelCase(name)}`;
}

function camelCase(name: string): string {
  return name.replace(/_+([a-z0-9]?)/g, (_, letter: string) => letter.toUpperCase());
}

function said(table: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
