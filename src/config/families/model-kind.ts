import type { z } from 'zod';
import type { ConfigIssue } from '../setting';
import type { HubConfig } from './family';
import type { BuiltInInput, BuiltInModel } from './kinds';

/** The form in which transformers or diffusers publish models of a kind. */
export interface PublishedForm<Shape> {
  /** The first word of the names of files. */
  readonly prefix: 'model' | 'diffusion_pytorch_model';
  /** Matrices that are [inputs, outputs] in files, by their names in this library. */
  readonly transposed?: RegExp;
  /** Returns the program that reads the files. */
  readerOf(shape: Shape): string;
  /** Returns the content of config.json. Throws: CONFIG if the sizes cannot be published as one model. */
  configOf(shape: Shape): HubConfig;
  /** Returns the name of a parameter in the published files. */
  nameOf(shape: Shape, own: string): string;
  /** Returns the names that a parameter may have in files, in this order. */
  namesOf(own: string): readonly string[];
}

/** What is equal for all kinds whose parameters have the names of transformers. */
export const OF_TRANSFORMERS = {
  prefix: 'model',
  readerOf: () => 'transformers',
  nameOf: (_: unknown, own: string) => own,
  namesOf: (own: string) => [own],
} as const;

/** The sizes of a small model whose parts a training's degrees divide. */
export interface SmallSizes {
  readonly layers: number;
  readonly dim: number;
  readonly heads: number;
  readonly vocab: number;
  readonly seq: number;
}

/**
 * [Note: kinds of models] Shared code does not ask for the name of a kind; it asks for the properties below, which each kind
 * declares once: here for settings and files, as a subclass of `LanguageModel` or `VideoModel` for ranks (embedding, layers and
 * head, and how they are divided), and in src/planner/model-shape.ts for plans. CONTRIBUTING.md lists the files of a new kind.
 */
export interface ModelKind<Shape = BuiltInModel> {
  readonly schema: z.ZodObject;
  /** The published model whose results the kind reproduces. */
  readonly says: string;
  /** The sizes that the kind has beside those of a gpt, or in their place, for the text of the setting `model`. */
  readonly differs?: string;
  /** A small model of the kind as it is written in a config, which every machine can train. */
  readonly small: string;
  /** Returns a small model like a published one. Default: a gpt. */
  smallLike?(sizes: SmallSizes, shape: Shape): BuiltInInput;
  /** What a training reads, from which its loss follows: the next tokens, or the velocity of videos; null: there is no loss. */
  readonly trainsOn: 'tokens' | 'videos' | null;
  /** Says what to do with a model that has no loss. */
  readonly withoutLoss?: string;
  /** Whether the model trains on instructions, whose batches may be packed. */
  readonly takesInstructions?: boolean;
  /** Whether attention reads only earlier positions, so that ranks of a ring have early and late ones. */
  readonly isCausal: boolean;
  /** Whether rotary positions turn pairs of each head's values. */
  readonly isRotary?: boolean;
  /** Whether each position has a learned embedding, so that models of other lengths have other weights. */
  readonly learnsPositions?: boolean;
  /** Whether a router in each layer chooses experts for each token. */
  readonly hasRouter?: boolean;
  /** What is said of settings for experts if experts are whole models. */
  readonly wholeExperts?: { readonly ep: string; readonly wrap: string };
  /** The names of embeddings in published models. */
  readonly embeddings: readonly string[];
  /** Finds sizes that contradict each other, beside those of heads. */
  conflictsOf?(shape: Shape): readonly ConfigIssue[];
  /** Returns why the model's layers cannot be on different stages of a pipeline; null if they can. */
  stageConflict?(shape: Shape): string | null;
  /** Returns why ranks cannot have parts of the same sequences; null if they can. */
  sequenceConflict?(shape: Shape): string | null;
  /** Why a model of this kind cannot be planned; undefined: plans know the kind (src/planner/model-shape.ts). */
  readonly notPlanned?: string;
  /** Returns the names that a parameter may have in published files of a kind that is read, but not written. */
  namesInFile?(own: string): readonly string[];
  /** undefined: transformers and diffusers have no such model. */
  readonly published?: PublishedForm<Shape>;
}

/** Returns an issue with a size of a model. */
export function wrongSize(key: string, message: string): ConfigIssue {
  return { path: ['model', key], message };
}
