import type { Bytes, CommCause } from '../../core';
import type { CollectiveRecord, StepRecord } from '../../ledger';
import { CALIBRATION } from '../calibration';
import { ITEM_BYTES } from '../cost/gemm';
import { sentKeyHeads } from '../cost/sequence-exchange';
import type { Planned } from '../cost-of';
import type { Layout } from '../layout';
import { type StageSizes, stageOf } from '../memory/pipeline-stage';
import type { CommAxis } from '../prediction';
import { type CommCounts, countsOf, stageCommBytes } from '../time/comm-bytes';
import type { DryRun } from './dry-run-result';

/** One cause of the difference between counted and predicted wire bytes; negative if fewer bytes are counted. */
export interface WireCause {
  readonly bytes: Bytes;
  readonly why: string;
}

/**
 * The wire bytes that a rank receives per step on one axis: those that a dry run counted on the rank that receives most, and those
 * that the plan predicts for the stage of this rank. The bytes of the causes add up to `counted` - `predicted`.
 */
export interface WireBeside {
  readonly axis: CommAxis;
  readonly counted: Bytes;
  readonly predicted: Bytes;
  readonly causes: readonly WireCause[];
}

/** The axis of a group, by the group's name without its ranks. */
const AXIS_OF: Readonly<Record<string, CommAxis>> = {
  ...{ world: 'dp', dp: 'dp', dp_cp: 'dp', dpShard: 'dp', dpReplicate: 'dp', edp: 'dp' },
  ...{ tp: 'tp', pp: 'pp', cp: 'cp', ep: 'ep' },
};

const AXES = ['dp', 'tp', 'pp', 'cp', 'ep'] as const satisfies readonly CommAxis[];

/** Causes whose messages have a few bytes, and that a plan leaves out. */
const SMALL: readonly CommCause[] = ['norm', 'loss', 'control'];

/** Returns counted and predicted wire bytes by axis, for the axes on which anything is sent. */
export function wireBeside({ lastStep, world }: DryRun, { layout }: Planned): readonly WireBeside[] {
  return AXES.flatMap((axis) => {
    const all = lastStep.map((record) => onAxis(record, axis));
    const most = all.reduce((a, b) => (received(b.events) > received(a.events) ? b : a));
    const stage = stageOf(layout, Math.floor((most.rank * layout.pp) / world));
    const row = rowOf(axis, layout, stage, most.events);
    return row.counted === 0 && row.predicted === 0 ? [] : [row];
  });
}

function onAxis({ rank, collectives }: StepRecord, axis: CommAxis) {
  const events = collectives.filter(({ group }) => AXIS_OF[group.replace(/\[.*/, '')] === axis);
  return { rank, events };
}

function received(events: readonly CollectiveRecord[]): Bytes {
  return events.reduce((sum, { wireBytes }) => sum + wireBytes, 0);
}

/**
 * Returns the row of an axis. The prediction is changed step by step into what this library does; each step is a cause, and the
 * last cause is what remains: other sizes.
 */
function rowOf(
  axis: CommAxis,
  layout: Layout,
  stage: StageSizes,
  events: readonly CollectiveRecord[],
): WireBeside {
  const of = (changed: Layout, counts?: CommCounts): Bytes =>
    stageCommBytes(changed, stage, CALIBRATION, counts)[axis];
  const small = received(events.filter(({ cause }) => SMALL.includes(cause)));
  const typed = typedAsHere(layout, events);
  const steps: WireCause[] = [];
  let bytes = of(layout);
  const change = (to: Bytes, why: string): void => {
    if (to !== bytes) steps.push({ bytes: to - bytes, why });
    bytes = to;
  };
  change(of(typed), `types: ${typeWords(layout, typed)}`);
  if (axis === 'dp') {
    const [there, here] = [countsOf(typed), countsHere(events, countsOf(typed))];
    change(of(typed, { ...here, reductions: there.reductions }), gatherWords(there, here));
    change(
      of(typed, here),
      `gradients are reduced ${times(here.reductions)} here, and ${times(there.reductions)} there`,
    );
  }
  if (axis === 'tp' && layout.sequenceParallel) change(bytes + normBytes(layout, stage, events), NORMS);
  if (axis === 'pp' && layout.tp > 1 && !layout.sequenceParallel) change(bytes * layout.tp, WHOLE);
  if (axis === 'pp') change(bytes + received(events.filter(({ cause }) => cause === 'grad')), TIED);
  if (axis === 'cp' && layout.cpKind === 'ring') {
    change((bytes * layout.model.kvHeads) / layout.tp / sentKeyHeads(layout), HEADS);
    change(ringHere(typed, stage), RING);
  }
  change(bytes + small, 'the loss, norms of gradients and sizes of messages are sent too');
  const counted = received(events);
  change(counted, axis === 'dp' ? SIZES : 'what is sent here has other sizes');
  return { axis, counted, predicted: of(layout), causes: steps };
}

const NORMS =
  "gradients of norms and of biases after a matmul's sum are added up over the ranks of tp, each of which has its part of the sequence";
const WHOLE = 'each rank of tp sends whole activations here, and its part there';
const TIED = 'gradients of the tied embedding and head are added up between the first and the last stage';
const HEADS = 'a ring sends each head of k and v once here, and once per head of the queries there';
const RING =
  'gradients of k and v are float32 here, and travel one time less than there are ranks; the plan has those of its framework';
const SIZES =
  'shards here have other elements: a rank of tp has norms and some biases whole, and shards are rounded up';

const PRECISIONS = { float32: 'fp32', bfloat16: 'bf16', float16: 'fp16' } as const;

/** Returns the layout with the types in which this library sends. */
function typedAsHere(layout: Layout, events: readonly CollectiveRecord[]): Layout {
  const typeOf = (causes: readonly CommCause[]) => {
    const type = events.find(({ cause }) => causes.includes(cause))?.wireDType;
    return type === undefined || !(type in PRECISIONS) ? null : PRECISIONS[type as keyof typeof PRECISIONS];
  };
  const precision = typeOf(['param', 'activation']) ?? layout.precision;
  const reduceDtype = typeOf(['grad']) ?? layout.reduceDtype;
  return { ...layout, precision, reduceDtype, fp8AllGather: false };
}

function typeWords(there: Layout, here: Layout): string {
  const words = ({ precision, reduceDtype, fp8AllGather }: Layout): string =>
    `values in ${fp8AllGather ? 'fp8' : precision} and gradients in ${reduceDtype ?? "the framework's type"}`;
  return `${words(here)} here, ${words(there)} there`;
}

/** Returns how often the dry run gathered and reduced; the counts of the plan for what the dry run did not send. */
function countsHere(events: readonly CollectiveRecord[], there: CommCounts): CommCounts {
  const numbers = (cause: CommCause, isRoot: boolean): number => {
    const counts = new Map<string, number>();
    for (const event of events) {
      if (event.cause !== cause || (event.module === '') !== isRoot) continue;
      const key = [event.op, event.group, event.module].join(' ');
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return Math.max(0, ...counts.values());
  };
  const isGathered = there.layer > 0;
  return {
    layer: isGathered ? numbers('param', false) || there.layer : 0,
    root: isGathered ? numbers('param', true) || there.root : 0,
    reductions: Math.max(numbers('grad', false), numbers('grad', true)) || there.reductions,
  };
}

function gatherWords(there: CommCounts, here: CommCounts): string {
  const words = ({ layer, root }: CommCounts): string => `layers ${times(layer)} and the root ${times(root)}`;
  return `a step gathers ${words(here)} here, ${words(there)} there`;
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`;
}

/** Returns the bytes of all-reduces that are not those of the loss; sequence parallelism has no others. */
function normBytes(layout: Layout, { isLast }: StageSizes, events: readonly CollectiveRecord[]): Bytes {
  const { model, microBatch, cp, tp, numMicroBatches } = layout;
  const tokens = (microBatch * model.seq) / cp;
  const ofLoss = isLast && model.logits > 0 ? 3 * tokens * ITEM_BYTES.fp32 * numMicroBatches : 0;
  const reduced = events.filter(({ op, cause }) => op === 'allReduce' && cause === 'activation');
  return received(reduced) - ofLoss * ((2 * (tp - 1)) / tp);
}

/** Returns the bytes of this library's rings; see [Note: ring attention] in sharding/context/ring-attention.ts. */
function ringHere(layout: Layout, { layers }: StageSizes): Bytes {
  const { model, microBatch, cp, tp, precision, numMicroBatches, recompute } = layout;
  const values = 2 * ((microBatch * model.seq) / cp) * (model.kvHeads / tp) * model.headDim;
  const forwards = recompute === 'full' ? 2 : 1;
  const items = (forwards + 1) * ITEM_BYTES[precision] + ITEM_BYTES.fp32;
  return layers * numMicroBatches * (cp - 1) * values * items;
}
