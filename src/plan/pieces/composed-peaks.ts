import { modelShape } from '../../config/model-config';
import type { TrainConfig } from '../../config/train-config';
import { MEMORY_CAUSES, type MemoryCause } from '../../core/events';
import type { Bytes } from '../../core/units';
import { modelParameterShapes } from '../../nn/models/build-model';
import { dryRun } from '../dry-run/dry-run';
import { BASE_SHARE, type Corners, OTHER_SHARE, Piece } from './piece';
import { type LeftOut, type TracePoint, traceOf } from './step-trace';

/** Most that a rank's device holds over a config's training. */
export interface ComposedPeak {
  readonly bytes: Bytes;
  readonly byCause: Readonly<Record<MemoryCause, Bytes>>;
  /** Whether it was composed of pieces; else the config was dry-run whole. */
  readonly composed: boolean;
}

/** What may vary within one piece. */
interface Varying {
  readonly layers: boolean;
  readonly world: boolean;
}

/**
 * Peaks of many configs, composed of few short dry runs that are kept: equal to each config's own dry run to the byte.
 * See [Note: pieces]. For searches; one config alone is as well dry-run.
 */
export class ComposedPeaks {
  readonly #pieces = new Map<string, Piece | null>();
  readonly #divisible = new Map<string, number>();
  #numRuns = 0;

  /** Dry runs made so far. */
  get numRuns(): number {
    return this.#numRuns;
  }

  /** Throws: what the config's dry run throws. */
  peak(config: TrainConfig, world: number): ComposedPeak {
    const layers = modelShape(config).layers;
    const period = periodOf(config);
    const least = leastLayers(layers, period);
    const canVary = {
      layers: variesByLayer(config) && layers >= least,
      world: this.#variesByWorld(config, world),
    };
    for (const varying of waysOf(canVary)) {
      const piece = this.#pieceOf(config, world, varying, { least, period });
      if (piece === null) continue;
      const extent = {
        layers: varying.layers ? (layers - least) / period : 0,
        batch: config.batch - 1,
        share: varying.world ? 1 / shardsOf(config, world) : BASE_SHARE,
      };
      return named(piece.peak(extent), true);
    }
    return this.#whole(config, world);
  }

  #pieceOf(
    config: TrainConfig,
    world: number,
    varying: Varying,
    { least, period }: { readonly least: number; readonly period: number },
  ): Piece | null {
    const layers = varying.layers ? least : modelShape(config).layers;
    const own = shardsOf(config, world);
    const base = resized(config, { layers, batch: 1, shards: varying.world ? 1 / BASE_SHARE : own });
    const key = JSON.stringify([base, varying, varying.world ? 0 : world]);
    const known = this.#pieces.get(key);
    if (known !== undefined) return known;
    const first = Math.floor(least / 2 / period) * period;
    const run = (more: number, batch: number, share: number): TracePoint[] => {
      const shards = varying.world ? 1 / share : own;
      const sized = resized(config, { layers: layers + more, batch, shards });
      return this.#trace(sized, worldOf(config, shards), more === 0 ? null : { first, count: period });
    };
    const corners: Corners = {
      base: run(0, 1, BASE_SHARE),
      batch: run(0, 2, BASE_SHARE),
      layer: varying.layers ? run(period, 1, BASE_SHARE) : null,
      share: varying.world ? run(0, 1, OTHER_SHARE) : null,
      layerBatch: varying.layers ? run(period, 2, BASE_SHARE) : null,
      layerShare: varying.layers && varying.world ? run(period, 1, OTHER_SHARE) : null,
    };
    const piece = Piece.of(corners);
    this.#pieces.set(key, piece);
    return piece;
  }

  #trace(config: TrainConfig, world: number, leftOut: LeftOut | null): TracePoint[] {
    this.#numRuns++;
    return traceOf(dryRun(config, { world, curve: false, events: true }).eventsOf(), leftOut);
  }

  #whole(config: TrainConfig, world: number): ComposedPeak {
    this.#numRuns++;
    const { held, heldBytes } = dryRun(config, { world, curve: false }).peak;
    return { bytes: heldBytes, byCause: held, composed: false };
  }

  /** Shards of tensors that are evenly divisible by the ranks are proportional to one over them. */
  #variesByWorld(config: TrainConfig, world: number): boolean {
    const shards = shardsOf(config, world);
    if (shards < 2 || typeof config.parallel.reshardAfterForward === 'number') return false;
    const key = JSON.stringify(config.model);
    const known = this.#divisible.get(key) ?? divisorOf(config);
    this.#divisible.set(key, known);
    return known % 4 === 0 && known % shards === 0;
  }
}

/** From what varies most to what varies least: the fewer vary, the more runs a search needs. */
function waysOf({ layers, world }: Varying): Varying[] {
  const ways = [
    { layers, world },
    { layers: false, world },
    { layers: false, world: false },
  ];
  return ways.filter((way, at) => at === 0 || JSON.stringify(way) !== JSON.stringify(ways[at - 1]));
}

function named(
  peak: { readonly bytes: number; readonly byCause: readonly number[] },
  composed: boolean,
): ComposedPeak {
  const byCause = Object.fromEntries(MEMORY_CAUSES.map((cause, index) => [cause, peak.byCause[index] ?? 0]));
  return { bytes: peak.bytes, byCause: byCause as Record<MemoryCause, Bytes>, composed }; // one entry a cause
}

/** Layers repeat after so many: every n-th of them is recomputed. */
function periodOf({ activationCheckpointing }: TrainConfig): number {
  const settings = activationCheckpointing;
  return typeof settings === 'object' && settings !== null && 'everyNth' in settings ? settings.everyNth : 1;
}

/** The fewest layers, at least six (three on each side: reductions of two may be under way at a third) and two periods, that are some periods fewer than `layers`. */
function leastLayers(layers: number, period: number): number {
  const least = Math.max(6, 2 * period);
  return least + ((((layers - least) % period) + period) % period);
}

/** Whether every layer is treated alike: no setting names one, and none is chosen by how many there are. */
function variesByLayer({ parallel, frozen, activationCheckpointing: settings }: TrainConfig): boolean {
  const names = [
    ...frozen,
    ...parallel.ignoredModules,
    ...parallel.unitStrategies.map(({ modules }) => modules),
  ];
  if (typeof parallel.wrap === 'object' && 'modules' in parallel.wrap) names.push(...parallel.wrap.modules);
  const isSolved = typeof settings === 'object' && settings !== null && 'budgetBytes' in settings;
  return !isSolved && names.every((name) => !/\d/.test(name));
}

/** What a run of a piece is made with in place of the config's own. */
interface RunSize {
  readonly layers: number;
  readonly batch: number;
  /** Ranks that share a shard. */
  readonly shards: number;
}

/** The config at another size, and without what changes no byte. */
function resized(config: TrainConfig, { layers, batch, shards }: RunSize): TrainConfig {
  const { mesh } = config.parallel;
  return {
    ...config,
    model: { ...modelShape(config), layers },
    batch,
    parallel: { ...config.parallel, mesh: mesh === null ? null : { ...mesh, dpShard: shards } },
    seed: 0,
    steps: 1,
    schedule: null,
  };
}

function shardsOf({ parallel: { mesh } }: TrainConfig, world: number): number {
  return mesh?.dpShard ?? world;
}

function worldOf({ parallel: { mesh } }: TrainConfig, shards: number): number {
  return shards * (mesh?.dpReplicate ?? 1);
}

/** Greatest common divisor of all tensors' rows. */
function divisorOf(config: TrainConfig): number {
  const rows = modelParameterShapes(resized(config, { layers: 1, batch: 1, shards: 1 }))
    .parameters()
    .map(({ shape: [first = 1] }) => first);
  return rows.reduce((a, b) => divisor(a, b), 0);
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}
