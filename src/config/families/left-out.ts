import type { PublishedName } from '../model-names';

/**
 * [Note: left-out inputs] What this library's models lack of published ones, in one sentence each. Every part that reads, plans, runs or
 * exports such a model says the sentence.
 */
const LEFT_OUT: Readonly<Partial<Record<PublishedName, string>>> = {
  'wan2.2-s2v-14b':
    'has, of the inputs of Wan2.2-S2V, only the text and the attention to audio: the reference image, the poses, the motion frames, and the scale and ' +
    'shift by audio are left out, so its weights cannot be read',
};

/** Returns what a published model lacks here, as the end of a sentence that begins with the model; null if nothing is left out. */
export function leftOutInputs(name: PublishedName | null): string | null {
  return (name && LEFT_OUT[name]) ?? null;
}

/** Why a published folder has no model here, by its `_class_name` or `model_type`. */
const NO_MODEL: Readonly<Record<string, string>> = {
  AutoencoderKLWan:
    "the folder has Wan's video autoencoder (VAE), which has no module here: a fixed coder without weights makes the latents of videos; give the transformer's folder",
  WanModel_S2V: `a model here ${LEFT_OUT['wan2.2-s2v-14b']}; the name 'wan2.2-s2v-14b' plans it`,
  umt5: 'the folder has a text encoder, which trains beside a dit; give textEncoder: { from } and the folder of a transformer as the model',
};

/** Returns why a folder whose config.json has this name has no model here; undefined: nothing is known of it. */
export function noModelReason(name: unknown): string | undefined {
  return typeof name === 'string' && Object.hasOwn(NO_MODEL, name) ? NO_MODEL[name] : undefined;
}
