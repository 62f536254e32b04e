import type { StepRecord } from '../../src/ledger/record';

/*
 * Loops by hand for cells of Python, on two ranks, and what their ledger has by formula. Sizes are odd, so that shards are padded.
 */

export const WORLD = 2;
const [VOCAB, DIM, HIDDEN] = [11, 6, 7];
const BYTES = 4;

/** The model, and the batches of a rank. */
export const NET = `
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(${DIM}, ${HIDDEN})
        self.fc2 = nn.Linear(${HIDDEN}, ${DIM})
    def forward(self, x):
        return x + self.fc2(torch.tanh(self.fc1(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.wte = nn.Embedding(${VOCAB}, ${DIM})
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(${DIM}, ${VOCAB})
    def forward(self, ids):
        x = self.wte(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
def shard(model, **options):
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)
def batch(step):
    return (torch.arange(10).view(2, 5) * 7 + 3 * step + 5 * rank) % ${VOCAB}
def loss_of(model, step):
    ids = batch(step)
    return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
def average(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world_size
losses = []
`;

/** How the model is wrapped, and what the loop does with gradients, by strategy. */
export const STRATEGIES = {
  plain: {
    model: 'Net()',
    reduce: 'average(model)',
  },
  ddp: { model: 'nn.parallel.DistributedDataParallel(Net())' },
  fsdp2: { model: 'shard(Net())' },
  fsdp1: {
    model:
      "FullyShardedDataParallel(Net(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device('cpu'))",
  },
} as const;
export type StrategyName = keyof typeof STRATEGIES;

/** The optimizers, and the number of their states per element and per parameter. */
export const OPTIMIZERS = {
  AdamW: { make: 'torch.optim.AdamW(model.parameters(), lr=1e-2)', perElement: 2, perParameter: 1 },
  SGD: {
    make: 'torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)',
    perElement: 1,
    perParameter: 0,
  },
} as const;
export type OptimizerName = keyof typeof OPTIMIZERS;

/** Returns the source of the cell that makes a model and its optimizer. */
export function setup(strategy: StrategyName, optimizer: OptimizerName): string {
  return `model = ${STRATEGIES[strategy].model}\noptimizer = ${OPTIMIZERS[optimizer].make}`;
}

/** Returns the source of a cell that trains steps `first` to `end` - 1. */
export function loop(strategy: StrategyName, first: number, end: number): string {
  const given = STRATEGIES[strategy];
  return `
for step in range(${first}, ${end}):
    optimizer.zero_grad()
    loss = loss_of(model, step)
    loss.backward()
    ${'reduce' in given ? given.reduce : 'pass'}
    optimizer.step()
    losses.append(loss.item())
`;
}

const BLOCK = [
  [HIDDEN, DIM],
  [HIDDEN, 1],
  [DIM, HIDDEN],
  [DIM, 1],
] as const;
/** The rows and columns of the parameters, by unit. */
const SHAPES: Readonly<Record<string, readonly (readonly [number, number])[]>> = {
  '': [
    [VOCAB, DIM],
    [VOCAB, DIM],
    [VOCAB, 1],
  ],
  'blocks.0': BLOCK,
  'blocks.1': BLOCK,
};

/** The model's units. */
export const UNITS = Object.keys(SHAPES);

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

function sizes(unit: string): number[] {
  return (SHAPES[unit] ?? []).map(([rows, columns]) => rows * columns);
}

/** The model's bytes. */
export const TOTAL = sum(UNITS.flatMap(sizes)) * BYTES;
/** The number of the model's parameters. */
export const NUM_PARAMETERS = UNITS.flatMap(sizes).length;

/** Returns the bytes of a rank's padded shard of a unit. */
export function shardBytes(strategy: 'fsdp1' | 'fsdp2', unit: string): number {
  if (strategy === 'fsdp1') return Math.ceil(sum(sizes(unit)) / WORLD) * BYTES;
  return sum((SHAPES[unit] ?? []).map(([rows, columns]) => Math.ceil(rows / WORLD) * columns)) * BYTES;
}

/** Returns the bytes of a rank's states after a step, by cause. */
export function statesByFormula(
  strategy: StrategyName,
  optimizer: OptimizerName,
  rank: number,
): Record<string, number> {
  const { perElement, perParameter } = OPTIMIZERS[optimizer];
  const states = (bytes: number, numParameters: number): number =>
    perElement * bytes + perParameter * numParameters * BYTES;
  if (strategy === 'plain' || strategy === 'ddp') {
    const optimizerBytes = states(TOTAL, NUM_PARAMETERS);
    const whole = { 'param.full': TOTAL, 'grad.full': TOTAL, optimizer: optimizerBytes };
    return strategy === 'ddp' ? { ...whole, comm: TOTAL } : whole;
  }
  const shard = sum(UNITS.map((unit) => shardBytes(strategy, unit)));
  // FSDP1 pads one flat parameter per unit, and FSDP2 each parameter; the states of FSDP2 have no padding.
  const own = UNITS.flatMap((unit) => SHAPES[unit] ?? []).map(
    ([rows, columns]) =>
      Math.max(0, Math.min(rows - rank * Math.ceil(rows / WORLD), Math.ceil(rows / WORLD))) * columns,
  );
  const optimizerBytes =
    strategy === 'fsdp1' ? states(shard, UNITS.length) : states(sum(own) * BYTES, NUM_PARAMETERS);
  return { 'param.shard': shard, 'grad.shard': shard, optimizer: optimizerBytes };
}

/** Returns the collectives of a step after the first, as 'operation cause unit', with their number, bytes and received bytes. */
export function collectivesByFormula(
  strategy: StrategyName,
): Record<string, readonly [number, number, number]> {
  // On two ranks, the ring algorithm receives as many bytes in an all-reduce as the tensor has.
  if (strategy === 'plain') return { 'allReduce user ': [NUM_PARAMETERS, TOTAL, TOTAL] };
  if (strategy === 'ddp') return { 'allReduce grad ': [1, TOTAL, TOTAL] };
  const calls = UNITS.flatMap((unit) => {
    const bytes = shardBytes(strategy, unit);
    // The root stays whole between forward and backward.
    const gathers = unit === '' ? 1 : 2;
    return [
      [`allGather param ${unit}`, [gathers, gathers * bytes, gathers * bytes]],
      [`reduceScatter grad ${unit}`, [1, WORLD * bytes, bytes]],
    ] as const;
  });
  return Object.fromEntries(calls);
}

/** Returns a record's bytes by cause; causes without bytes are left out. */
export function byCause(
  { memory }: StepRecord,
  moment: 'atStart' | 'atPeak' | 'atRest',
): Record<string, number> {
  const sums: Record<string, number> = {};
  memory.owners.forEach(({ cause }, i) => {
    sums[cause] = (sums[cause] ?? 0) + (memory[moment][i] ?? 0);
  });
  return Object.fromEntries(Object.entries(sums).filter(([, bytes]) => bytes > 0));
}

/** Returns a record's collectives in the form of `collectivesByFormula`; DDP's collectives have no unit there. */
export function byCollective(
  record: StepRecord,
  strategy: StrategyName,
): Record<string, [number, number, number]> {
  const calls: Record<string, [number, number, number]> = {};
  for (const { op, cause, module, bytes, wireBytes } of record.collectives) {
    // At the second step's begin, DDP's ranks agree on the order of its buckets.
    if (strategy === 'ddp' && cause === 'control') continue;
    const key = `${op} ${cause} ${strategy === 'ddp' ? '' : module}`;
    const [count, all, received] = calls[key] ?? [0, 0, 0];
    calls[key] = [count + 1, all + bytes, received + wireBytes];
  }
  return calls;
}
