import { type DitConfig, ditSchema } from '../../config';
import * as tf from '../../core/tf';
import { gelu, linear, silu } from '../../engine';
import type { Attend } from '../attention';
import { applyInTurn, ModuleList, Sequential } from '../containers';
import { DIT, DitBlock, modulated, modulationsOf, type PatchParts } from '../dit-block';
import { constant, normal, uniform, xavierUniform } from '../init';
import { GPT2, Linear } from '../linear';
import { Module } from '../module';
import { Parameter } from '../parameter';
import { frequencies, type Grid, gridAngles } from '../rotary';
import { checkedShape, type ShapeOptions } from './checked-shape';
import { DitExperts } from './dit-experts';
import { requireInputs } from './require-inputs';
import { VideoModel } from './video-model';

/** The sizes of a diffusion transformer, and the seed of its initial values. */
export type DitOptions = ShapeOptions<typeof ditSchema>;

/** The base of all sinusoids' frequencies. Source: Wan2.2's sinusoidal_embedding_1d and rope_params. */
const THETA = 10_000;

/** Initial values of the layers that embed texts and timesteps. */
const EMBEDDING = { init: { ...GPT2.init, bias: constant(0) } } as const;

/**
 * The video transformer of Wan2.2, with the same parameter names and initial values. A timestep is embedded once per video (or
 * per latent frame); the published code embeds the timestep for every patch, with the same result.
 * Shapes: latents [B, inChannels, F, H, W], timesteps [B] in [0, 1000) or, per latent frame, [B, F],
 * text [B, textLen, textDim], audio (with audioLayers) [B, F, audioDim] → [B, outChannels, F, H, W].
 * Source: Wan2.2's WanModel; Wan et al. 2025.
 */
export class Dit extends VideoModel {
  readonly shape: DitConfig;
  readonly patch_embedding: PatchEmbedding;
  readonly text_embedding: Sequential;
  readonly time_embedding: Sequential;
  readonly time_projection: Sequential;
  readonly blocks: ModuleList<DitBlock>;
  readonly head: DitHead;
  /** Makes the tokens of a frame's audio; null if the model has no audio. */
  readonly audio_encoder: Linear | null;
  /** Divides patches over ranks; null if this rank computes all patches. Context parallelism sets this field. */
  parts: PatchParts | null = null;

  constructor(shape: DitConfig, { isOneOfSeveral = false } = {}) {
    super();
    this.shape = shape;
    this.isOptional = isOneOfSeveral;
    const { dim, textDim, freqDim } = shape;
    this.patch_embedding = new PatchEmbedding(shape);
    const embedding = (inputs: number, activation: typeof silu): Sequential =>
      new Sequential([new Linear(inputs, dim, EMBEDDING), activation, new Linear(dim, dim, EMBEDDING)]);
    this.text_embedding = embedding(textDim, gelu);
    this.time_embedding = embedding(freqDim, silu);
    this.time_projection = new Sequential([silu, new Linear(dim, 6 * dim, DIT)]);
    const { audioLayers, audioDim, audioTokens } = shape;
    const blocks = Array.from(
      { length: shape.layers },
      (_, i) => new DitBlock(shape, { hasAudio: audioLayers.includes(i) }),
    );
    this.blocks = new ModuleList(blocks);
    this.audio_encoder = audioLayers.length === 0 ? null : new Linear(audioDim, audioTokens * dim, DIT);
    this.head = new DitHead(shape);
  }

  override dividePatches(parts: PatchParts, attendOf: (module: Module) => Attend): boolean {
    if (this.parts !== null) return false;
    this.parts = parts;
    for (const { self_attn, audio_attn } of this.blocks) {
      self_attn.attend = attendOf(self_attn);
      if (audio_attn !== null) audio_attn.parts = parts;
    }
    return true;
  }

  forward(latents: tf.Tensor, timesteps: tf.Tensor, text: tf.Tensor, audio?: tf.Tensor): tf.Tensor {
    const { dim, heads, patch } = this.shape;
    const isPerFrame = timesteps?.rank === 2;
    const inputs = { latents, timesteps, text, ...(this.audio_encoder === null ? {} : { audio }) };
    requireInputs('Dit', wantedInputs(this.shape, latents, isPerFrame), inputs);
    const [frames = 0, rows = 0, columns = 0] = latents.shape.slice(2);
    const grid: Grid = [frames / patch[0], rows / patch[1], columns / patch[2]];
    const cut = (x: tf.Tensor, along: number): tf.Tensor => this.parts?.cut(x, along) ?? x;
    const { cos, sin } = gridAngles(grid, dim / heads / 2, THETA);
    const angles = [cut(cos, 0), cut(sin, 0)] as const;
    const { time, time6 } = this.#embedTime(timesteps, grid);
    const context = this.text_embedding.apply(text);
    const patches = cut(this.patch_embedding.apply(latents), 1);
    const heard = this.#embedAudio(audio, grid);
    const x = applyInTurn(this.blocks, patches, time6, context, ...angles, ...heard);
    const velocity = this.head.apply(x, time);
    return videoOf(this.parts?.gather(velocity) ?? velocity, grid, patch);
  }

  /**
   * Embeds timesteps. Shapes: timesteps [B] → time [B, d] and time6 [B, 6, d]; [B, F] → [B, N, d] and [B, N, 6, d] for this
   * rank's N patches.
   */
  #embedTime(timesteps: tf.Tensor, [, rows, columns]: Grid): { time: tf.Tensor; time6: tf.Tensor } {
    const { dim, freqDim, patch } = this.shape;
    const [batch = 0, frames] = timesteps.shape;
    const time = this.time_embedding.apply(sinusoids(tf.reshape(timesteps, [-1]), freqDim));
    const time6 = this.time_projection.apply(time);
    if (frames === undefined) return { time, time6: tf.reshape(time6, [batch, 6, dim]) };
    const perPatch = (x: tf.Tensor, ...each: number[]): tf.Tensor => {
      const byFrame = tf.reshape(x, [batch, frames / patch[0], patch[0], -1]);
      const first = tf.slice(byFrame, [0, 0, 0, 0], [batch, frames / patch[0], 1, byFrame.shape[3] ?? 0]);
      const all = tf.reshape(tf.tile(first, [1, 1, rows * columns, 1]), [batch, -1, ...each]);
      return this.parts?.cut(all) ?? all;
    };
    return { time: perPatch(time, dim), time6: perPatch(time6, 6, dim) };
  }

  /**
   * Returns the audio's tokens as a list of one tensor; without audio, returns an empty list. Shapes: audio [B, F, audioDim] →
   * [B, f, A, d].
   */
  #embedAudio(audio: tf.Tensor | undefined, [frames]: Grid): tf.Tensor[] {
    if (this.audio_encoder === null || audio === undefined) return [];
    const { dim } = this.shape;
    return [tf.reshape(this.audio_encoder.apply(audio), [audio.shape[0] ?? 0, frames, -1, dim])];
  }
}

/** Returns the shapes of a transformer's inputs. */
function wantedInputs(shape: DitConfig, latents: tf.Tensor | undefined, isPerFrame: boolean) {
  const { inChannels, patch, textLen, textDim, audioLayers, audioDim } = shape;
  const [t, p, q] = patch;
  const [batch = 0, , frames = 0] = latents?.shape ?? [];
  const audio = { dtype: 'float32', shape: [batch, frames, audioDim] } as const;
  return {
    latents: { dtype: 'float32', shape: ['B', inChannels, 'F', 'H', 'W'], multiples: { 2: t, 3: p, 4: q } },
    timesteps: { dtype: 'float32', shape: isPerFrame ? [batch, frames] : [batch] },
    text: { dtype: 'float32', shape: [batch, textLen, textDim] },
    ...(audioLayers.length === 0 ? {} : { audio }),
  } as const;
}

/** A linear layer on patches. Shapes: [B, C, F, H, W] → [B, N, d]; weight [d, C, t, p, q]. Source: torch.nn.Conv3d. */
export class PatchEmbedding extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter;
  readonly #patch: Grid;

  constructor({ dim, inChannels, patch }: DitConfig) {
    super();
    this.#patch = patch;
    const width = inChannels * patch[0] * patch[1] * patch[2];
    this.weight = Parameter.deferred([dim, inChannels, ...patch], xavierUniform());
    this.bias = Parameter.deferred([dim], uniform(1 / Math.sqrt(width)));
  }

  forward(latents: tf.Tensor): tf.Tensor {
    const { tensor } = this.weight;
    const matrix = tf.reshape(tensor, [tensor.shape[0] ?? 0, -1]);
    return linear(patchesOf(latents, this.#patch), matrix, this.bias.tensor);
  }
}

/**
 * The last norm, which the timestep modulates, and the last linear layer. Shapes: x [B, N, d], time [B, d] or [B, N, d] →
 * [B, N, t·p·q·C]. Source: Wan2.2's Head.
 */
export class DitHead extends Module {
  readonly head: Linear;
  readonly modulation: Parameter;
  readonly #eps: number;

  constructor({ dim, outChannels, patch, normEps }: DitConfig) {
    super();
    this.#eps = normEps;
    const outputs = patch[0] * patch[1] * patch[2] * outChannels;
    this.modulation = Parameter.deferred([1, 2, dim], normal(1 / Math.sqrt(dim)));
    this.head = new Linear(dim, outputs, { init: { weight: constant(0), bias: constant(0) } });
  }

  forward(x: tf.Tensor, time: tf.Tensor): tf.Tensor {
    const parts = modulationsOf(this.modulation.tensor, tf.expandDims(time, time.rank - 1));
    const [shift, scale] = parts as [tf.Tensor, tf.Tensor]; // one per row of `modulation`
    return this.head.apply(modulated(x, shift, scale, this.#eps));
  }
}

/** Returns the cosines, then the sines, of timestep · frequency. Shapes: timesteps [B] → [B, width]. */
function sinusoids(timesteps: tf.Tensor, width: number): tf.Tensor {
  const angles = tf.mul(tf.expandDims(timesteps, 1), tf.expandDims(frequencies(width / 2, THETA), 0));
  return tf.concat([tf.cos(angles), tf.sin(angles)], 1);
}

// B videos, C channels, F frames, H rows, W columns; a patch has t·p·q pixels, and a video has f·h·w patches.

/**
 * Divides a video into patches, in which the channel is the outermost index. Shapes: x [B, C, F, H, W] → [B, f·h·w, C·t·p·q].
 * Source: the order in which torch.nn.Conv3d's weight [dim, C, t, p, q] reads a patch.
 */
function patchesOf(x: tf.Tensor, [t, p, q]: Grid): tf.Tensor {
  const [batch = 0, channels = 0, frames = 0, rows = 0, columns = 0] = x.shape;
  const [f, h, w] = [frames / t, rows / p, columns / q];
  const tiled = tf.transpose(tf.reshape(x, [batch * channels * frames, h, p, w, q]), [0, 1, 3, 2, 4]);
  const parts = tf.reshape(tiled, [batch, channels, f, t, h * w, p * q]);
  return tf.reshape(tf.transpose(parts, [0, 2, 4, 1, 3, 5]), [batch, f * h * w, channels * t * p * q]);
}

/**
 * Joins patches, in which the channel is the innermost index, into a video. Shapes: x [B, f·h·w, t·p·q·C] → [B, C, F, H, W].
 * Source: Wan2.2's unpatchify.
 */
function videoOf(x: tf.Tensor, [f, h, w]: Grid, [t, p, q]: Grid): tf.Tensor {
  const [batch = 0, , width = 0] = x.shape;
  const channels = width / (t * p * q);
  const parts = tf.transpose(tf.reshape(x, [batch, f, h * w, t, p * q, channels]), [0, 5, 1, 3, 2, 4]);
  const tiled = tf.reshape(parts, [batch * channels * f * t, h, w, p, q]);
  return tf.reshape(tf.transpose(tiled, [0, 1, 3, 2, 4]), [batch, channels, f * t, h * p, w * q]);
}

/** Makes a config's transformer, or two transformers as experts; only one of the two runs per step. */
export function newDit(shape: DitConfig): Dit | DitExperts {
  if (shape.experts === 1) return new Dit(shape);
  return new DitExperts(shape, () => new Dit(shape, { isOneOfSeveral: true }));
}

/**
 * Makes Wan2.2's transformer; its initial values depend on the seed and are equal on all ranks. Throws: CONFIG if sizes
 * contradict each other.
 */
export function dit(sizes: DitOptions): Dit | DitExperts {
  return newDit(checkedShape('dit', ditSchema, sizes)).manualSeed(sizes.seed ?? 0);
}
