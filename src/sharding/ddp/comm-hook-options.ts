import { type CommHookConfig, type CommHookInput, parseTrainConfig } from '../../config';

/** Checks a hook's options and adds the defaults. Throws: CONFIG, as for `parallel.commHook` of a config. */
export function commHookOptions<K extends CommHookConfig['kind']>(
  input: Extract<CommHookInput, { kind: K }>,
): Extract<CommHookConfig, { kind: K }> {
  const { parallel } = parseTrainConfig({ parallel: { strategy: 'NO_SHARD', commHook: input } });
  return parallel.commHook as Extract<CommHookConfig, { kind: K }>; // parsing does not change `kind`
}
