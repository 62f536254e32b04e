import type { LayerPlacement } from '../../config';
import { withGradients } from '../../core';
import * as tf from '../../core/tf';
import { awaitGradient } from '../../engine';
import type { ExpertCopies, Experts, FeedForward, Parameter } from '../../nn';
import type { Piece, PieceList, ProcessGroup } from '../../wire';
import { exchangeOptions } from '../exchange-options';
import { requireEngine } from './require-engine';

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
export function expertCopies(
  group: ProcessGroup,
  { experts, copies }: LayerPlacement,
  layer: string,
): ExpertCopies {
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
