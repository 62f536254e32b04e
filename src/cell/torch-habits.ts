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

const GROUP =
  'Leave it out: the ranks of a job are a process group from the start, and dist.newGroup makes others';
const END = 'Write await job.shutdown()';

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
  help: 'For help on a name, write sl.launch? alone in a cell',
  DistributedDataParallel: 'Write DDP(model)',
  init_process_group: GROUP,
  launch: 'Write await sl.launch({ ranks: 4 })',
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

const STEP = 'Write await run.step(10)';
const MEMORY = 'Write run.memory()';
const COUNT = 'Write job.ranks.length';

/** Advice about members of one type, in camel case, by the type's name or, for a type without a name, by its variable. */
const MEMBERS_OF: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  Run: {
    train: STEP,
    fit: STEP,
    run: STEP,
    memorySummary: MEMORY,
    memoryAllocated: MEMORY,
    maxMemoryAllocated: MEMORY,
    summary: 'Write run alone for its settings, run.units() for its modules, and run.memory() for its bytes',
    parameters:
      'The parameters are in the ranks: run.units() lists them, and await run.save(‘folder’) writes them',
    stateDict: 'The values are in the ranks: await run.save(‘folder’) writes them',
    loadStateDict: 'Write await run.load(‘folder’)',
    plot: 'Write run.loss(), run.memory(), run.comm() or run.timeline()',
    eval: 'Write await run.evaluate()',
  },
  Job: {
    stop: END,
    close: END,
    exit: END,
    terminate: END,
    destroy: END,
    restart: 'Write await job.heal() to start ranks again that ended, or await job.shutdown() and sl.launch',
    world: COUNT,
    worldSize: COUNT,
    size: COUNT,
    rank: 'Each rank has its own: write rank in a %%ranks cell',
  },
  dist: {
    initProcessGroup: GROUP,
    isInitialized: GROUP,
    reduceScatterTensor: 'Write dist.reduceScatter(x)',
    allGatherTensor: 'Write dist.allGatherIntoTensor(x)',
    allToAllSingle: 'Write dist.allToAll(x)',
    monitoredBarrier: 'Write dist.barrier()',
  },
  tf: { randn: 'Write tf.randomNormal([2, 3])', cat: 'Write tf.concat([a, b], 1)' },
};

/** Advice about keys of an object that a function takes, in camel case, by the type's name. */
const KEYS_OF: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  LaunchOptions: {
    worldSize: 'Write ranks: 2',
    nprocPerNode: 'Write ranks: 2',
    nproc: 'Write ranks: 2',
    n: 'Write ranks: 2',
    gpus: 'Write ranks: 2; sl.plan predicts GPUs',
    backend: 'Leave it out: ranks of one machine share memory; engine: ‘torch’ uses gloo',
  },
  // The table of settings has these names too, but the table's packages are not in the compiler's snapshot.
  TrainInput: {
    batchSize: 'Write batch',
    learningRate: 'Write optimizer: { lr }',
    lr: 'Write optimizer: { lr }',
    epochs: 'Write steps',
    strategy: 'Write parallel: { strategy }',
    zeroStage: 'Write parallel: { strategy: ‘ZERO_3’ }',
    fsdp: 'Write parallel: { strategy: ‘FULL_SHARD’ }',
    bf16: 'Write mixedPrecision: ‘bf16’',
    fp16: 'Write mixedPrecision: ‘fp16’',
  },
  PlanObject: { gpu: 'Write on: ‘H100-80G’', device: 'Write on: ‘H100-80G’', world: 'Write gpus: 8' },
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
  const key = /'(\w+)' does not exist in type '/.exec(message)?.[1];
  if (key !== undefined) return adviceOnKey(key, message);
  if (/'number' is not assignable to parameter of type 'LaunchOptions'/.test(message))
    return 'Write sl.launch({ ranks: 2 })';
  if (/Argument of type 'Run' .*Record<string, Compared>/.test(message))
    return 'Give the runs names: sl.compare({ run, other }, ‘memory’)';
  if (/^Type 'string' has no properties in common with type '\{ pp\?: /.test(message))
    return 'Write parallel: { strategy: ‘FULL_SHARD’ }';
  if (message.includes('{ layerCls: string[]; }')) return 'Classes of modules are { layerCls: [‘Block’] }';
  if (!/Type 'string' is not assignable to type '(\w+ \| )?"/.test(message)) return undefined;
  return 'In an object that is assigned to a variable, a field such as kind may have any text: write, for example, kind: ‘adam’ as const';
}

/** Returns advice about a key that an object may not have; `message` is the type checker's message. */
export function adviceOnKey(name: string, message: string): string | undefined {
  const type = /does not exist in type '(\w+)/.exec(message)?.[1] ?? '';
  return said(KEYS_OF[type] ?? {}, camelCase(name));
}

/** Returns advice about an error that a cell's code threw when it ran. */
export function adviceOnTypeError(message: string): string | undefined {
  const name = /\.(\w+) is not a function$/.exec(message)?.[1];
  return name === undefined ? undefined : said(MEMBERS, name);
}

/** Returns advice about a value that is no function, such as a table; `message` is the type checker's message. */
export function adviceOnCall(name: string, message: string): string | undefined {
  return /Type 'Readonly<Record</.test(message)
    ? `It is a table: write ${name} without parentheses`
    : undefined;
}

/** Returns advice about a name that a package does not export. */
export function adviceOnImport(name: string, message: string): string | undefined {
  if (!message.includes('"shardlab"')) return undefined;
  return said(MOVED, name) ?? said({ ...NAMES, ...OF_RANKS }, name);
}

const RANKS = 'Cells that begin with %%ranks have it without an import';
const OF_RANKS: Readonly<Record<string, string>> = {
  nn: RANKS,
  optim: RANKS,
  dist: RANKS,
  tf: RANKS,
  FSDP: RANKS,
  DDP: RANKS,
  fullyShard: RANKS,
};

/** A member that the type of `owner`, the text before its dot, does not have; `after` is the text after its name. */
export interface UnknownMember {
  readonly name: string;
  /** The type checker's message. */
  readonly message: string;
  readonly owner?: string;
  readonly after?: string;
}

/** Returns advice about a member that a type does not have. */
export function adviceOnMember({ name, message, owner = '', after = '' }: UnknownMember): string | undefined {
  const type = /on type '(\w+)/.exec(message)?.[1] ?? '';
  const own = said(MEMBERS_OF[type] ?? MEMBERS_OF[owner] ?? {}, camelCase(name));
  if (own !== undefined) return own;
  // The advice is only for types that have a name, not for texts, numbers and object literals.
  if (!/on type '(typeof )?(import\(|[A-Z])/.test(message)) return undefined;
  if (/^\s*=\s*(new )?nn\./.test(after))
    return `Declare the field in the class: ${name} = new nn.Linear(7, 13), or, if the constructor assigns it, only the name: ‘${name};’`;
  const moved = /\/src\/index("|')/.test(message) ? said(MOVED, name) : undefined;
  return moved ?? said(MEMBERS, name);
}

/** Returns a name of Python as it is written here. */
export function camelCase(name: string): string {
  return name.replace(/_+([a-z0-9]?)/g, (_, letter: string) => letter.toUpperCase());
}

function said(table: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
