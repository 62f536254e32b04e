import { rankNames, type StepPoint } from '../../core';
import type { WalkedPoint, WalkPosition } from './walk-record';

/** The kinds of points that a player draws in different colours. */
export const POINT_KINDS = [
  'data',
  'gather',
  'forward',
  'loss',
  'recompute',
  'backward',
  'reduce',
  'reshard',
  'optimizer',
  'send',
  'collective',
] as const;
export type PointKind = (typeof POINT_KINDS)[number];

/** The names of the kinds in a legend. */
export const KIND_WORDS: Readonly<Record<PointKind, string>> = {
  data: 'data',
  gather: 'unshard',
  forward: 'forward',
  loss: 'loss',
  recompute: 'recompute',
  backward: 'backward',
  reduce: 'reduce gradients',
  reshard: 'reshard',
  optimizer: 'optimizer',
  send: 'send, recv',
  collective: 'other collective',
};

/** The words for a point of a step. */
export interface PointWords {
  readonly kind: PointKind;
  /** A short name, such as "unshard blocks.0" or "allReduce #4 of loss". */
  readonly label: string;
  /** What the rank is about to do, such as "reduce-scatter the gradients of blocks.3 (#9 in world)". */
  readonly action: string;
}

/** Describes a point of a step. */
export function describePoint(point: StepPoint): PointWords {
  const { name, module, collective, pipeline } = point;
  if (collective !== undefined) return describeCollective(name, module, collective);
  if (pipeline !== undefined) return describePipeline(name, pipeline);
  const whole = module === '' ? 'the whole model' : module;
  const label = module === '' ? name : `${name} ${module}`;
  switch (name) {
    case 'forward':
      return { kind: name, label, action: `run forward of ${whole}` };
    case 'backward':
      return { kind: name, label, action: `run backward of ${whole}` };
    case 'recompute':
      return { kind: name, label, action: `run forward of ${whole} again, for backward` };
    case 'reshard':
      return {
        kind: name,
        label: `reshard ${unitName(module)}`,
        action: `free the whole parameters of ${unitName(module)}`,
      };
    case 'loss':
      return { kind: name, label, action: 'compute the loss' };
    case 'optimizer':
      return { kind: name, label, action: 'update its parameters' };
    case 'data':
      return { kind: name, label, action: 'load its batch' };
    default:
      // A collective's point has a collective; this is for records that others have made.
      return { kind: 'collective', label, action: `start ${label}` };
  }
}

/** Says where a rank stands, such as "rank 2 is about to reduce-scatter the gradients of blocks.3 (#9 in world)". */
export function describePosition(
  rank: number,
  position: WalkPosition,
  reached: WalkedPoint | undefined,
): string {
  return `rank ${rank} ${positionText(position, reached)}`;
}

/** Returns `describePosition` without its first words, so that equal positions of several ranks have equal texts. */
export function positionText({ state, waitsFor }: WalkPosition, reached: WalkedPoint | undefined): string {
  if (state === 'ended') return 'has reached all its points';
  if (reached === undefined) return 'has not reached a point yet';
  const { label, action } = describePoint(reached.point);
  if (state === 'halted') return `is about to ${action}`;
  const { collective } = reached.point;
  const where = collective === undefined ? label : `${label} (${numberIn(collective)})`;
  return `waits in ${where}${waitsFor.length === 0 ? '' : ` for ${rankNames(waitsFor)}`}`;
}

type Collective = NonNullable<StepPoint['collective']>;

const VERBS: Readonly<Partial<Record<StepPoint['name'], string>>> = {
  allReduce: 'all-reduce',
  reduceScatter: 'reduce-scatter',
  allGather: 'all-gather',
  allToAll: 'exchange by all-to-all',
};

const CARRIED: Readonly<Record<Collective['cause'], string>> = {
  param: 'the parameters',
  grad: 'the gradients',
  activation: 'the activations',
  buffer: 'the buffers',
  norm: 'the norm of the gradients',
  loss: 'the loss',
  user: 'a tensor',
  control: 'a control value',
};

function describeCollective(name: StepPoint['name'], module: string, collective: Collective): PointWords {
  const { cause, peer, number, detail } = collective;
  const place = `(${numberIn(collective)}${collective.async ? ', asynchronous' : ''})`;
  const isUnits = cause === 'param' || cause === 'grad';
  const of = module === '' && !isUnits ? '' : ` of ${unitName(module)}`;
  const data = detail ?? `${CARRIED[cause]}${of}`;
  switch (name) {
    case 'send':
      return pointToPoint(`send #${number} to rank ${peer}`, `send ${data} to rank ${peer} ${place}`, detail);
    case 'recv':
      return pointToPoint(
        `recv #${number} from rank ${peer}`,
        `receive ${data} from rank ${peer} ${place}`,
        detail,
      );
    case 'barrier':
      return { kind: 'collective', label: `barrier #${number}`, action: `enter a barrier ${place}` };
    default: {
      const kind = cause === 'param' ? 'gather' : cause === 'grad' ? 'reduce' : 'collective';
      const isFrom = name === 'broadcast' || name === 'scatter';
      const root = peer === undefined ? '' : ` ${isFrom ? 'from' : 'to'} rank ${peer}`;
      const action = `${VERBS[name] ?? name} ${data}${root} ${place}`;
      return { kind, label: collectiveLabel(name, module, collective), action };
    }
  }
}

function collectiveLabel(name: StepPoint['name'], module: string, { cause, number }: Collective): string {
  if (name === 'allGather' && cause === 'param') return `unshard ${unitName(module)}`;
  if (name === 'reduceScatter' && cause === 'grad') return `${name} ${unitName(module)}`;
  if (module !== '') return `${name} ${module}`;
  return cause === 'user' ? `${name} #${number}` : `${name} #${number} of ${cause}`;
}

function pointToPoint(label: string, action: string, detail: string | undefined): PointWords {
  return { kind: 'send', label: detail === undefined ? label : `${label}: ${detail}`, action };
}

function describePipeline(name: StepPoint['name'], work: NonNullable<StepPoint['pipeline']>): PointWords {
  const { stage, microbatch, half } = work;
  const kind = name === 'backward' ? 'backward' : 'forward';
  const where = `of stage ${stage}, microbatch ${microbatch}`;
  if (half === undefined) return { kind, label: `${name} ${where}`, action: `run ${name} ${where}` };
  const parts = half === 'input' ? 'the input' : 'the parameters';
  return {
    kind,
    label: `${name} ${where} (${half})`,
    action: `compute the gradients of ${parts} in ${name} ${where}`,
  };
}

/** Names a unit; the unit without a name is the root. */
function unitName(module: string): string {
  return module === '' ? 'the root' : module;
}

function numberIn({ number, group }: Collective): string {
  return `#${number} in ${group}`;
}
