/** A value in the constructor's call of a layer in PyTorch. */
export type TorchArgument = number | boolean | string | null | readonly (number | null)[];

/** The constructor's call of a layer in PyTorch that has the same forward, parameters and names as a layer here. */
export interface TorchLayer {
  /** The name in torch.nn, such as 'Conv2d'. */
  readonly name: string;
  readonly args: readonly TorchArgument[];
  /** Arguments by name; those with PyTorch's default are left out. */
  readonly options: Readonly<Record<string, TorchArgument>>;
}

/** An argument, and PyTorch's default of it. */
type Optional = readonly [value: TorchArgument | undefined, usual: TorchArgument];

/** Returns a constructor's call without the options that have their defaults. */
export function torchLayer(
  name: string,
  args: readonly TorchArgument[] = [],
  options: Readonly<Record<string, Optional>> = {},
): TorchLayer {
  const changed = Object.entries(options).flatMap(([key, [value, usual]]) =>
    value === undefined || isSame(value, usual) ? [] : [[key, value] as const],
  );
  return { name, args, options: Object.fromEntries(changed) };
}

/** Whether two arguments are equal; a number stands for a pair of equal numbers. */
function isSame(value: TorchArgument, usual: TorchArgument): boolean {
  const numbers = (argument: TorchArgument): string =>
    JSON.stringify(Array.isArray(argument) && new Set(argument).size === 1 ? argument[0] : argument);
  return numbers(value) === numbers(usual);
}
