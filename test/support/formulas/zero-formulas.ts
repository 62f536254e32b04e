import type { StrategyName } from '../../../src/config/strategies';
import type { MemoryCause } from '../../../src/core/events';
import type { Bytes } from '../../../src/core/units';
import { type RuleSettings, ruleOf, type UnitRule } from './unit-rules';

/** The states that are sharded over the ranks. */
export type ZeroStrategy = StrategyName;

/** Parameters that are gathered and reduced together. */
export interface ZeroUnit {
  readonly name: string;
  /** Elements, frozen ones too. */
  readonly numParams: number;
  /** Elements added so that all ranks' shards are equal. Default 0. */
  readonly padding?: number;
  /** Elements added if shards after forward are over fewer ranks. Default 0. */
  readonly postForwardPadding?: number;
  /** How many of the elements are frozen, and how much of the padding is theirs. Default none. */
  readonly frozen?: { readonly numParams: number; readonly padding: number };
  /** Elements of each buffer that the optimizer updates on one rank. Default one: all trainable elements that the rank holds. */
  readonly buffers?: readonly number[] | undefined;
  /** It runs first and ends last, and stays whole from forward to backward (FSDP's root): it is gathered once per step. */
  readonly staysWhole?: boolean;
  /** Default the model's. */
  readonly strategy?: ZeroStrategy | 'IGNORED';
}

export interface ZeroQuestion extends RuleSettings {
  readonly units: readonly ZeroUnit[];
  readonly strategy: ZeroStrategy;
  /** Bytes of one parameter and of one gradient. Default 4 (float32). */
  readonly itemBytes?: number;
  /** Bytes of an element on the wire. Default itemBytes. */
  readonly wireItemBytes?: { readonly param: number; readonly grad: number } | undefined;
  /** Bytes of the optimizer's states of a buffer, by its elements. Default 8 per element (Adam's two float32 moments). */
  readonly optimizerBytes?: ((elements: number) => Bytes) | undefined;
}

/** Model states of one rank, and the bytes that it receives in one step. */
export interface ZeroPrediction {
  readonly strategy: ZeroStrategy;
  readonly world: number;
  readonly numParams: number;
  readonly padding: number;
  /** States on the device by their cause in a ledger; unsharded states count as full. */
  readonly states: readonly { readonly cause: MemoryCause; readonly bytes: Bytes }[];
  /** The same on the host. */
  readonly hostStates: readonly { readonly cause: MemoryCause; readonly bytes: Bytes }[];
  /** On the device. */
  readonly stateBytes: Bytes;
  /** Received from others by the ring algorithms, parameters and gradients only; the mean over ranks if parts differ. */
  readonly wireBytes: { readonly param: Bytes; readonly grad: Bytes };
  /** Collectives for parameters and gradients. */
  readonly collectives: {
    readonly allGather: number;
    readonly reduceScatter: number;
    readonly allReduce: number;
  };
}

/**
 * Model states and communication by ZeRO's formulas. With Ψ parameters on N ranks: a sharded state costs its bytes
 * times Ψ/N; a gather or reduction of all parameters receives Ψ(N-1)/N elements. With R copies of shards over S ranks
 * each, N is S, and copies agree by an all-reduce of Ψ/S elements: 2Ψ/S(R-1)/R more.
 * Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
 * section 5 (states), section 7 (communication); in bytes of float32 instead of the paper's 2 + 2 + 12.
 */
export function predictStates(question: ZeroQuestion): ZeroPrediction {
  const { units, world, strategy, itemBytes = 4 } = question;
  const wire = question.wireItemBytes ?? { param: itemBytes, grad: itemBytes };
  const terms = units.map((unit) => unitTerms(unit, question));
  const total = (count: (term: UnitTerms) => number): number =>
    terms.reduce((sum, term) => sum + count(term), 0);
  const statesIn = (space: 'device' | 'host') =>
    (
      [
        ['param.shard', total((unit) => unit[space].paramShard) * itemBytes],
        ['param.full', total((unit) => unit[space].paramFull) * itemBytes],
        ['grad.shard', total((unit) => unit[space].gradShard) * itemBytes],
        ['grad.full', total((unit) => unit[space].gradFull) * itemBytes],
        ['optimizer', total((unit) => unit[space].optimizer)],
      ] as const
    )
      .map(([cause, bytes]) => ({ cause, bytes }))
      .filter(({ bytes }) => bytes > 0);
  const states = statesIn('device');
  return {
    strategy,
    world,
    numParams: units.reduce((sum, { numParams }) => sum + numParams, 0),
    padding: units.reduce((sum, { padding = 0 }) => sum + padding, 0),
    states,
    hostStates: statesIn('host'),
    stateBytes: states.reduce((sum, { bytes }) => sum + bytes, 0),
    wireBytes: {
      param: total((unit) => unit.gathered) * wire.param,
      grad: total((unit) => unit.reduced) * wire.grad,
    },
    collectives: {
      allGather: total((unit) => unit.allGathers),
      reduceScatter: total((unit) => unit.reduceScatters),
      allReduce: total((unit) => unit.allReduces),
    },
  };
}

/** Elements that one rank holds of a unit; of the optimizer, bytes. */
interface HeldTerms {
  readonly paramShard: number;
  readonly paramFull: number;
  readonly gradShard: number;
  readonly gradFull: number;
  readonly optimizer: number;
}

/** Elements that one rank holds of a unit and receives for it, and its collectives. */
interface UnitTerms {
  readonly device: HeldTerms;
  readonly host: HeldTerms;
  readonly gathered: number;
  readonly reduced: number;
  readonly allGathers: number;
  readonly reduceScatters: number;
  readonly allReduces: number;
}

function unitTerms(unit: ZeroUnit, question: ZeroQuestion): UnitTerms {
  const { numParams, padding = 0, frozen = { numParams: 0, padding: 0 } } = unit;
  const { offloadsParameters = false, offloadsOptimizer = false, optimizerBytes = twoMoments } = question;
  const rule = ruleOf(unit.strategy ?? question.strategy, unit.staysWhole === true, question);
  const { numShards, numCopies, cuts, isGatheredForUse, hasMaster } = rule;
  const trained = numParams - frozen.numParams;
  const trainedChunk = (trained + padding - frozen.padding) / numShards;
  const shards = {
    paramShard: hasMaster ? (numParams + padding) / numShards : 0,
    gradShard: cuts('gradient') ? trainedChunk : 0,
  };
  const wholes = {
    paramFull: isGatheredForUse ? 0 : numParams,
    gradFull: cuts('gradient') ? 0 : trained,
  };
  const { buffers = [cuts('optimizer') ? trainedChunk : trained] } = unit;
  const optimizer = { optimizer: buffers.reduce((sum, elements) => sum + optimizerBytes(elements), 0) };
  const onHost = offloadsParameters && isGatheredForUse;
  const reductions = trained > 0 ? rule.reductions : 0;
  return {
    device: {
      ...NOTHING,
      ...wholes,
      ...(onHost ? {} : shards),
      ...(onHost || offloadsOptimizer ? {} : optimizer),
    },
    host: { ...NOTHING, ...(onHost ? shards : {}), ...(onHost || offloadsOptimizer ? optimizer : {}) },
    ...gathers(unit, rule, question),
    reduced:
      rule.reductions * (trainedChunk * (numShards - 1) + (2 * trainedChunk * (numCopies - 1)) / numCopies),
    reduceScatters: cuts('optimizer') ? reductions : 0,
    allReduces: numCopies > 1 || !cuts('optimizer') ? reductions : 0,
  };
}

const NOTHING: HeldTerms = { paramShard: 0, paramFull: 0, gradShard: 0, gradFull: 0, optimizer: 0 };

function twoMoments(elements: number): Bytes {
  return 8 * elements;
}

/** All-gathers of a step, and the bytes that they receive. */
function gathers(
  { numParams, padding = 0, postForwardPadding = 0, frozen = { numParams: 0, padding: 0 } }: ZeroUnit,
  rule: UnitRule,
  { accumulation = 1 }: ZeroQuestion,
): { readonly gathered: number; readonly allGathers: number } {
  const { numShards, isGatheredForUse, reshards, postForward, cuts } = rule;
  if (!cuts('optimizer')) return { gathered: 0, allGathers: 0 };
  const fromOthers = (numShards - 1) / numShards;
  const whole = (numParams + padding) * fromOthers;
  if (!isGatheredForUse) {
    // Parameters that stay whole are gathered once, after the optimizer changed the chunks; frozen parameters never.
    const changed = numParams + padding - frozen.numParams - frozen.padding;
    return { gathered: changed * fromOthers, allGathers: changed > 0 ? 1 : 0 };
  }
  const again =
    postForward === null ? whole : ((numParams + postForwardPadding) * (postForward - 1)) / postForward;
  return {
    gathered: accumulation * (whole + (reshards ? again : 0)),
    allGathers: accumulation * (reshards ? 2 : 1),
  };
}
