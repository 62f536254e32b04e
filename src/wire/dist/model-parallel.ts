import { inspect } from 'node:util';
import { countSchema, parseOptions, type ShapeOf } from '../../config';
import { ShardlabError } from '../../core';
import { type DeviceMesh, initDeviceMesh } from './device-mesh';
import type { ProcessGroup } from './types';

/** Degrees of model parallelism. Source: megatron.core.parallel_state.initialize_model_parallel. */
export interface ModelParallelSizes {
  /** The number of ranks of a tensor-parallel group. Each of these four sizes has the default 1. */
  readonly tensorModelParallelSize?: number | undefined;
  readonly pipelineModelParallelSize?: number | undefined;
  readonly contextParallelSize?: number | undefined;
  /**
   * The number of ranks over which experts are divided. It must divide dp * cp, the number of data-parallel ranks times the
   * number of context-parallel ranks.
   */
  readonly expertModelParallelSize?: number | undefined;
}

/**
 * The groups of a rank under model parallelism; the number of data-parallel ranks is the number of all ranks divided by tp, pp
 * and cp.
 */
export interface ModelParallel {
  /** The mesh has the axes pp, dp, cp, tp. The ranks of a tp group are neighbours, as in Megatron's order tp-cp-ep-dp-pp. */
  readonly mesh: DeviceMesh;
  /** Ranks that hold parts of the same matrices. */
  readonly tp: ProcessGroup;
  /** Ranks that hold the stages of one pipeline, in order. */
  readonly pp: ProcessGroup;
  /** Ranks that hold parts of the same sequences. */
  readonly cp: ProcessGroup;
  /** Ranks that train on different batches. */
  readonly dp: ProcessGroup;
  /** Ranks that hold the same parameters, over which gradients are reduced: the ranks of dp and cp together. */
  readonly dpCp: ProcessGroup;
  /** Ranks that hold different experts of the same layers. */
  readonly ep: ProcessGroup;
  /** Ranks that hold the same experts. */
  readonly edp: ProcessGroup;
  readonly isFirstStage: boolean;
  readonly isLastStage: boolean;
}

const SIZES = {
  tensorModelParallelSize: countSchema.default(1),
  pipelineModelParallelSize: countSchema.default(1),
  contextParallelSize: countSchema.default(1),
  expertModelParallelSize: countSchema.default(1),
} satisfies ShapeOf<ModelParallelSizes>;

/**
 * Divides a group's ranks into the groups of model parallelism. All ranks must call this function with the same sizes.
 * Source of the order of ranks: megatron.core.parallel_state, order tp-cp-ep-dp-pp.
 * Throws: CONFIG for an unknown size, and for a value that is not a positive integer; MESH if the sizes do not divide the ranks.
 */
export function initializeModelParallel(group: ProcessGroup, sizes: ModelParallelSizes = {}): ModelParallel {
  const {
    tensorModelParallelSize: tp,
    pipelineModelParallelSize: pp,
    contextParallelSize: cp,
    expertModelParallelSize: ep,
  } = parseOptions('initializeModelParallel({ … })', sizes, SIZES);
  const model = tp * pp * cp;
  if (group.size % model !== 0) {
    throw new ShardlabError(
      'MESH',
      `tp(${tp}) x pp(${pp}) x cp(${cp}) = ${model} does not divide the job's ${group.size} ranks; ` +
        `launch a multiple of ${model} ranks or change a size`,
      { details: { tp, pp, cp, ranks: group.size } },
    );
  }
  const dp = group.size / model;
  if ((dp * cp) % ep !== 0) {
    throw new ShardlabError(
      'MESH',
      `expertModelParallelSize ${ep} does not divide the ${dp * cp} ranks that hold the same layers ` +
        `(dp ${dp} x cp ${cp}); give a divisor of ${dp * cp}, or launch more ranks`,
      { details: { ep, dp, cp } },
    );
  }
  const mesh = initDeviceMesh(group, [pp, dp, cp, tp], ['pp', 'dp', 'cp', 'tp']);
  const dpCp = mesh.slice('dp', 'cp').group;
  const experts = ep === 1 ? undefined : initDeviceMesh(group, [pp, (dp * cp) / ep, ep, tp], EXPERT_AXES);
  const stage = mesh.coordinate[0] ?? 0;
  const groups = {
    mesh,
    tp: mesh.get('tp'),
    pp: mesh.get('pp'),
    cp: mesh.get('cp'),
    dp: mesh.get('dp'),
    dpCp,
    ep: experts?.get('ep') ?? alone(mesh),
    edp: experts?.get('edp') ?? dpCp,
    isFirstStage: stage === 0,
    isLastStage: stage === pp - 1,
  };
  return { ...groups, [inspect.custom]: () => `model parallel ${inspect(mesh)}` } as ModelParallel;
}

const EXPERT_AXES = ['pp', 'edp', 'ep', 'tp'];

/** Returns a group that has only this rank. */
function alone(mesh: DeviceMesh): ProcessGroup {
  const axis = mesh.axisNames.find((name) => mesh.sizeOf(name) === 1);
  if (axis !== undefined) return mesh.get(axis);
  return initDeviceMesh(mesh.group, [...mesh.shape, 1], [...mesh.axisNames, 'ep']).get('ep');
}
