import {
  consecutivePlacement,
  copiesPerRank,
  type ExpertPlacement,
  fields,
  instance,
  type LayerPlacement,
  nearest,
  ofKind,
  parseOptions,
  placementIssue,
  requireKind,
  type ShapeOf,
} from '../../config';
import { ConfigError, withGradients } from '../../core';
import * as tf from '../../core/tf';
import { awaitGradient } from '../../engine';
import {
  type ExpertCopies,
  type Experts,
  type FeedForward,
  type MixtureOfExperts,
  type Module,
  mixturesIn,
  type Parameter,
  requireModule,
} from '../../nn';
import type { ModelParallel, Piece, PieceList, ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { splitParameter } from '../tensor/split-parameter';
import { expertExchange } from './expert-exchange';
import { requireEngine } from './require-engine';

/** Options of `applyExpertParallel`. */
export interface ExpertParallelOptions {
  /**
   * The experts and the copies of experts that each rank has: the result of `placeExperts`. Default: equally many consecutive
   * experts per rank, no copies.
   */
  readonly placement?: ExpertPlacement | null | undefined;
}

const OPTIONS = {
  placement: ofKind<ExpertPlacement>(fields).nullable().default(null),
} satisfies ShapeOf<ExpertParallelOptions>;

/**
 * Divides the experts of all layers of a model over the ranks of `parallel.ep`, in place, and returns the model. Each rank stores
 * the values of equally many experts of each layer (consecutive experts, or the experts of `placement`). Each row travels to the
 * rank that has the row's expert. The ranks of `ep` have different batches, so these ranks also belong to `dp`. Losses, gradients
 * and parameters are the same as if every rank had all experts, except for the order of sums; an expert's gradient is averaged
 * over `parallel.edp`. Call this function before DDP and fullyShard, to which you give `parallel.mesh.slice('dp')`.
 * Source: Lepikhin et al. 2020 (GShard); Megatron's expert_model_parallel_size. Throws: CONFIG for a model without experts, for
 * experts that the ranks do not divide, for a placement that does not fit the experts, and for a second call.
 */
export function applyExpertParallel<M extends Module>(
  model: M,
  parallel: Pick<ModelParallel, 'ep' | 'edp'>,
  options: ExpertParallelOptions = {},
): M {
  const settings = parseOptions('applyExpertParallel(model, parallel, { … })', options, OPTIONS);
  const placement = settings.placement ?? {};
  requireKind('applyExpertParallel', 'the second argument', parallel, instance);
  const { ep, edp } = parallel;
  const mixtures = mixturesIn(requireModule('applyExpertParallel', model));
  if (mixtures.length === 0) {
    throw new ConfigError(
      `applyExpertParallel: a ${model.constructor.name} has no experts; use nn.moe or a module with an nn.MixtureOfExperts`,
    );
  }
  for (const mixture of mixtures) requireExperts(mixture, ep.size);
  requirePlacement(placement, mixtures, ep.size);
  if (ep.size === 1) return model;
  for (const mixture of mixtures) {
    const { path, experts } = mixture;
    divide(mixture, sorted(placement[path] ?? consecutivePlacement(experts.length, ep.size)), { ep, edp });
  }
  return model;
}

function requirePlacement(
  placement: ExpertPlacement,
  mixtures: readonly MixtureOfExperts[],
  ranks: number,
): void {
  for (const [layer, each] of Object.entries(placement)) {
    const mixture = mixtures.find(({ path }) => path === layer);
    const issue =
      mixture === undefined
        ? unknownLayer(
            layer,
            mixtures.map(({ path }) => path),
          )
        : placementIssue(layer, each, mixture.experts.length, ranks);
    if (issue !== null) throw new ConfigError(`the placement of experts: ${issue}`, { layer, ranks });
  }
}

function unknownLayer(layer: string, known: readonly string[]): string {
  const near = nearest(layer, known);
  const hint = near === undefined ? `layers with experts are ${known.join(', ')}` : `did you mean '${near}'?`;
  return `the model has no layer '${layer}' with experts; ${hint}`;
}

/** All ranks send and receive in the order of experts. */
function sorted({ experts, copies }: LayerPlacement): LayerPlacement {
  const ascending = (lists: LayerPlacement['experts']) =>
    lists.map((list) => [...list].sort((a, b) => a - b));
  return { experts: ascending(experts), copies: ascending(copies) };
}

function requireExperts({ experts, path }: MixtureOfExperts, ranks: number): void {
  if (experts.owned !== null)
    throw new ConfigError(
      `applyExpertParallel: the experts of "${path}" are divided already; build the model again`,
    );
  if (experts.parameters().some(({ isAdopted }) => isAdopted))
    throw new ConfigError(
      `applyExpertParallel: "${path}" is already in a DDP or a unit; divide experts first`,
    );
  if (experts.length % ranks === 0) return;
  const divisors = Array.from({ length: experts.length }, (_, i) => i + 1).filter(
    (n) => experts.length % n === 0,
  );
  throw new ConfigError(
    `expert parallelism: ${ranks} ranks do not divide the ${experts.length} experts of "${path}"; use ${divisors.join(', ')} ranks`,
    { experts: experts.length, ranks },
  );
}

function divide(
  mixture: MixtureOfExperts,
  placement: LayerPlacement,
  { ep, edp }: Pick<ModelParallel, 'ep' | 'edp'>,
): void {
  const { experts } = mixture;
  const owned = placement.experts[ep.rank] ?? [];
  experts.owned = owned;
  const over = { group: ep, copies: 1, replicas: edp };
  [...experts].forEach((expert, i) => {
    const isOwn = owned.includes(i);
    for (const module of expert.modules()) {
      for (const [name, { shape }] of module.ownParameters) {
        const length = isOwn ? (shape[0] ?? 1) : 0;
        const ranges = isOwn ? [{ begin: 0, end: length }] : [];
        splitParameter(module, name, { split: { over, wholeShape: shape, dim: 0, ranges }, length });
      }
    }
  });
  // Other ranks' experts have no elements here, but they have their names, so all ranks know which experts are frozen.
  const trains = (): boolean => experts.parameters().some(({ requiresGrad }) => requiresGrad);
  mixture.exchange = expertExchange(ep, placement, trains);
  if (copiesPerRank(placement) > 0) experts.copies = expertCopies(ep, placement, mixture.path);
}

/*
 * [Note: copies of experts] Only one rank has the gradients and optimizer states of an expert and stores its values, even if
 * the expert has copies. In each forward, an all-to-all sends the expert's values to the ranks that compute copies. In
 * backward, another all-to-all returns the gradients of the copies, and the expert's rank adds them to its own gradients. So
 * copies are always equal to the expert, and strategies, optimizers and checkpoints need not know the copies. A copy's values
 * are stored from forward to backward. Sources: He et al. 2022 (FasterMoE), shadowed experts; Skiadopoulos et al. 2025,
 * placement of parameters apart from optimizer states; DeepSeek's EPLB, redundant experts.
 */

/** A copy: the expert, the rank with its values, and the rank that computes the copy. */
interface Copy {
  readonly expert: number;
  readonly home: number;
  readonly rank: number;
}

/** Returns the copies of a layer that this rank of a group computes. `layer` is the mixture's name. */
function expertCopies(group: ProcessGroup, { experts, copies }: LayerPlacement, layer: string): ExpertCopies {
  const all = copies.flatMap((list, rank) =>
    list.map((expert) => ({ expert, home: experts.findIndex((own) => own.includes(expert)), rank })),
  );
  const here = all.filter(({ rank }) => rank === group.rank);
  return {
    experts: here.map(({ expert }) => expert),
    values(modules) {
      const sentExperts = sentExpertsOf(
        modules,
        all.filter(({ home }) => home === group.rank),
      );
      const shapes = shapesOf(modules, here[0]?.expert ?? 0);
      const flat = travelled({
        group,
        layer,
        here,
        sentExperts,
        size: shapes.reduce((sum, shape) => sum + sizeOf(shape), 0),
        trains: () => modules.parameters().some(({ requiresGrad }) => requiresGrad),
      });
      const rows = here.length > 1 ? tf.split(flat, here.length, 0) : [flat];
      return rows.map((row) => inShapes(row, shapes));
    },
  };
}

/** This rank's experts that have copies, whose values this rank sends to the ranks with the copies. */
interface SentExperts {
  /** The copies of this rank's experts, expert by expert. */
  readonly copies: readonly Copy[];
  /** The parameters of these experts; all have the same shapes. */
  readonly parameters: ReadonlyMap<number, readonly Parameter[]>;
  /**
   * If this rank's experts have no copies: the smallest trainable parameter of one of its experts, so that backward reaches
   * this rank too. Otherwise null.
   */
  readonly anchor: Parameter | null;
}

function sentExpertsOf(modules: Experts, copies: readonly Copy[]): SentExperts {
  const parametersOf = (expert: number): Parameter[] => modules.at(expert)?.parameters() ?? [];
  const sorted = [...copies].sort((a, b) => a.expert - b.expert || a.rank - b.rank);
  const parameters = new Map(sorted.map(({ expert }) => [expert, parametersOf(expert)]));
  const trained = parametersOf(modules.owned?.[0] ?? 0).filter(({ requiresGrad }) => requiresGrad);
  const [smallest = null] = trained.sort((a, b) => a.size - b.size);
  return { copies: sorted, parameters, anchor: parameters.size === 0 ? smallest : null };
}

interface Journey {
  readonly group: ProcessGroup;
  readonly layer: string;
  /** The copies that this rank computes. */
  readonly here: readonly Copy[];
  readonly sentExperts: SentExperts;
  /** The number of an expert's elements. */
  readonly size: number;
  /** Whether an expert of the layer trains, on any rank. */
  readonly trains: () => boolean;
}

/** Sends values; backward returns gradients. Shapes: the parameters of this rank's copied experts → [copies here, elements]. */
function travelled({ group, layer, here, sentExperts, size, trains }: Journey): tf.Tensor {
  const { copies, parameters, anchor } = sentExperts;
  const sources = anchor === null ? [...parameters.values()].flat() : [anchor];
  const shapes = sources.map(({ shape }) => shape);
  const counts = [...parameters.keys()].map(
    (expert) => copies.filter((copy) => copy.expert === expert).length,
  );
  const tensors = sources.map(({ tensor }) => tensor);
  const rowPieces = (rows: tf.Tensor, list: readonly Copy[], end: 'home' | 'rank'): PieceList[] =>
    group.ranks.map((_, peer) =>
      list.flatMap((copy, row): Piece[] =>
        copy[end] === peer ? [{ tensor: rows, offset: row * size, length: size }] : [],
      ),
    );
  /** Sends the gradients of this rank's copies home; returns those that this rank's experts get, which the caller disposes. */
  const sentHome = (dy: tf.Tensor): tf.Tensor => {
    const engine = requireEngine();
    const received = engine.allocate([copies.length, size], 'float32', engine.currentTag);
    // Gradients of copies are parts of sums, so they travel with 32 bits.
    const options = { cause: 'grad', module: layer, wireDType: 'float32' } as const;
    group.allToAllPieces(rowPieces(dy, here, 'home'), rowPieces(received, copies, 'rank'), options).wait();
    return received;
  };
  const rows = withGradients(tensors, () => {
    const values = requireEngine().allocate([here.length, size], 'float32', requireEngine().currentTag);
    const wholes = wholePieces(parameters);
    const sent = group.ranks.map((_, peer) =>
      copies.flatMap(({ expert, rank }) => (rank === peer ? (wholes.get(expert) ?? []) : [])),
    );
    group
      .allToAllPieces(sent, rowPieces(values, here, 'home'), { ...exchangeOptions(layer), cause: 'param' })
      .wait();
    return {
      value: values,
      gradients: (dy) => {
        const received = sentHome(dy);
        const gradients = anchor === null ? sums(received, counts, shapes) : [tf.zeros([...anchor.shape])];
        received.dispose();
        return gradients;
      },
    };
  });
  awaitGradient(rows, trains, sentHome);
  return rows;
}

/** Returns the values of experts as pieces. */
function wholePieces(parameters: SentExperts['parameters']): ReadonlyMap<number, readonly Piece[]> {
  return new Map(
    [...parameters].map(([expert, own]) => [
      expert,
      own.map(({ tensor, size: length }) => ({ tensor, offset: 0, length })),
    ]),
  );
}

/** Adds up the gradients of each expert's copies. Shapes: [copies, elements] → the shapes of the experts' parameters. */
function sums(
  rows: tf.Tensor,
  counts: readonly number[],
  shapes: readonly (readonly number[])[],
): tf.Tensor[] {
  const perExpert = shapes.length / counts.length;
  const parts = counts.length > 1 ? tf.split(rows, [...counts], 0) : [rows];
  return parts.flatMap((part, i) => {
    const own = shapes.slice(i * perExpert, (i + 1) * perExpert);
    return inShapes(tf.sum(part, 0, true), own);
  });
}

/** Cuts a row into tensors. Shapes: [1, elements] → the shapes in `shapes`. */
function inShapes(row: tf.Tensor, shapes: readonly (readonly number[])[]): tf.Tensor[] {
  const parts = tf.split(row, shapes.map(sizeOf), 1);
  return parts.map((part, i) => tf.reshape(part, [...(shapes[i] ?? [])]));
}

/** Returns the shapes of an expert's whole parameters. */
function shapesOf(modules: Experts, expert: number): (readonly number[])[] {
  const module: FeedForward | undefined = modules.at(expert);
  return (module?.parameters() ?? []).map(({ shape, split }) => split?.wholeShape ?? shape);
}

function sizeOf(shape: readonly number[]): number {
  return tf.util.sizeFromShape([...shape]);
}
