import { decides, type KeyRow } from './key-row';
import { numberOf } from './values';

/** Returns the row of a program's weight decay; the program leaves out biases and norms, which have groups of their own there. */
export function weightDecayRow(program: string): KeyRow {
  return {
    ...decides('optimizer.weightDecay', ({ value: given }) => {
      const value = given === null ? 0 : numberOf(given);
      const sets = { 'optimizer.weightDecay': value };
      if (value === 0) return { sets };
      return {
        sets,
        effect: 'warning',
        why:
          `optimizer.weightDecay: ${value} is for all parameters here; ${program} leaves out biases and norms: write optimizer.groups: ` +
          "[{ modules: ['LayerNorm', 'RMSNorm'], parameters: 'bias', weightDecay: 0 }]",
      };
    }),
    write: ({ config }) => config.optimizer.weightDecay,
  };
}
