import type { StepPoint } from '../../../src/core';
import type {
  SourcePlace,
  WalkedPoint,
  WalkPosition,
  WalkRecord,
} from '../../../src/figures/player/walk-record';

// Records of walks that are made by hand: they hold what ranks would report, with small numbers that a reader can add.

const CAUSES = [
  'param.shard',
  'param.full',
  'grad.shard',
  'grad.full',
  'optimizer',
  'activation',
  'temp',
] as const;

type Held = Readonly<Record<(typeof CAUSES)[number], number>>;
type Collective = NonNullable<StepPoint['collective']>;

function collective(name: StepPoint['name'], module: string, more: Partial<Collective>): StepPoint {
  const base = {
    group: 'world',
    ranks: [0, 1],
    number: 1,
    cause: 'param',
    wireDType: 'float32',
    count: 32_000,
    async: false,
    cell: 8,
    line: 3,
    detail: undefined,
  } as const;
  return { name, module, collective: { ...base, ...more } };
}

const LAYERS = ['layers.0', 'layers.1', 'layers.2'];
/** The bytes of a layer's whole parameters. */
const WHOLE = 256_000;
const ACTIVATION = 100_000;

/** One step of FSDP: three layers are gathered, run and freed; their gradients are reduced on the way back. */
function fsdpPoints(): readonly WalkedPoint[] {
  const points: WalkedPoint[] = [];
  let held: Held = {
    'param.shard': 384_000,
    'param.full': 0,
    'grad.shard': 0,
    'grad.full': 0,
    optimizer: 768_000,
    activation: 0,
    temp: 0,
  };
  let number = 0;
  const at = (point: StepPoint, place: number, change: Partial<Held> = {}): void => {
    points.push({ point, bytes: CAUSES.map((cause) => held[cause]), place });
    held = { ...held, ...change };
  };
  const gathers = (module: string): StepPoint =>
    collective('allGather', module, { cause: 'param', number: ++number });
  at({ name: 'data', module: '' }, 0);
  for (const module of LAYERS) {
    at(gathers(module), 1, { 'param.full': WHOLE });
    at({ name: 'forward', module }, 1, { activation: held.activation + ACTIVATION });
    at({ name: 'reshard', module }, 1, { 'param.full': 0 });
  }
  at({ name: 'loss', module: '' }, 1, { temp: 50_000 });
  for (const module of LAYERS.toReversed()) {
    at(gathers(module), 2, { 'param.full': WHOLE, temp: 0 });
    at({ name: 'backward', module }, 2, { 'grad.full': WHOLE, activation: held.activation - ACTIVATION });
    at({ name: 'reshard', module }, 2, { 'param.full': 0 });
    at(collective('reduceScatter', module, { cause: 'grad', number: ++number }), 2, {
      'grad.full': 0,
      'grad.shard': held['grad.shard'] + WHOLE / 2,
    });
  }
  at(collective('allReduce', '', { cause: 'loss', number: ++number, count: 1 }), 2);
  at({ name: 'optimizer', module: '' }, 3, { 'grad.shard': 0 });
  return points;
}

const SOURCE = [
  "const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });",
  'for (const batch of data) {',
  '  const loss = model.call(batch);',
  '  loss.backward();',
  '  optimizer.step();',
  '}',
];

function sourceAt(at: number): SourcePlace {
  return { title: `cell 8, line ${at + 1}`, lines: SOURCE, at };
}

/** Three layers under FSDP on two ranks; rank 1 is a point behind in the middle, so rank 0 waits for it. */
export function fsdpRecord(): WalkRecord {
  const points = fsdpPoints();
  const halted = (numReached: number): WalkPosition => ({ numReached, state: 'halted', waitsFor: [] });
  const waiting = (numReached: number): WalkPosition => ({ numReached, state: 'waiting', waitsFor: [1] });
  const ended: WalkPosition = { numReached: points.length, state: 'ended', waitsFor: [] };
  const rounds = points.map((_, index) => [halted(index + 1), halted(index + 1)]);
  // The reduce-scatter of layers.2: rank 0 waits within it while rank 1 is still in backward.
  const behind = points.findIndex(({ point }) => point.name === 'reduceScatter');
  rounds.splice(behind, 1, [halted(behind + 1), halted(behind)], [waiting(behind + 1), halted(behind + 1)]);
  return {
    title: 'Step 1 of FULL_SHARD',
    causes: CAUSES,
    modules: ['', ...LAYERS],
    places: [sourceAt(1), sourceAt(2), sourceAt(3), sourceAt(4)],
    points: [points, points],
    rounds: [...rounds, [ended, ended]],
  };
}

/** Two stages of a pipeline and two microbatches; no point unshards parameters, and no line is known. */
export function pipelineRecord(): WalkRecord {
  const work = (name: 'forward' | 'backward', stage: number, microbatch: number): StepPoint => ({
    name,
    module: '',
    pipeline: { stage, microbatch },
  });
  const mail = (name: 'send' | 'recv', peer: number, number: number, what: string): StepPoint =>
    collective(name, '', { group: 'pp', cause: 'activation', peer, number, detail: what });
  const output = (microbatch: number): string => `the output of microbatch ${microbatch} from stage 0`;
  const gradient = (microbatch: number): string => `the gradient of microbatch ${microbatch} from stage 1`;
  const first = [
    work('forward', 0, 0),
    mail('send', 1, 1, output(0)),
    work('forward', 0, 1),
    mail('send', 1, 2, output(1)),
    mail('recv', 1, 3, gradient(0)),
    work('backward', 0, 0),
    mail('recv', 1, 4, gradient(1)),
    work('backward', 0, 1),
    { name: 'optimizer', module: '' } as const,
  ];
  const second = [
    mail('recv', 0, 1, output(0)),
    work('forward', 1, 0),
    work('backward', 1, 0),
    mail('send', 0, 3, gradient(0)),
    mail('recv', 0, 2, output(1)),
    work('forward', 1, 1),
    work('backward', 1, 1),
    mail('send', 0, 4, gradient(1)),
    { name: 'optimizer', module: '' } as const,
  ];
  const walked = (points: readonly StepPoint[]): readonly WalkedPoint[] =>
    points.map((point, index) => ({
      point,
      bytes: [0, 400_000, 0, 0, 0, 50_000 * (index % 4), 0],
      place: null,
    }));
  const states = ['halted', 'halted', 'waiting'] as const;
  const rounds = first.map((_, index) =>
    [0, 1].map((rank): WalkPosition => {
      const state = rank === 1 ? (states[index % 3] ?? 'halted') : 'halted';
      return { numReached: index + 1, state, waitsFor: state === 'waiting' ? [0] : [] };
    }),
  );
  return {
    title: 'Step 1 of a pipeline, <b>1F1B</b>',
    causes: CAUSES,
    modules: [''],
    places: [],
    points: [walked(first), walked(second)],
    rounds,
  };
}
