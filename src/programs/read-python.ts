import { strategyNamed } from '../config';
import { PLUGINS } from './python/accelerate-plugin';
import {
  isCalled,
  type KnownFunctions,
  type PythonArgument,
  type PythonCall,
  PythonFile,
  type Signatures,
} from './python/calls';
import { OFFLOADS, PRECISIONS, ZERO } from './python/policies';
import { type CallMade, member, WRAPPERS } from './python/pytorch-fsdp';
import { programs, pythonCalls } from './registry/registry';
import { type KeyTable, none, warned } from './rows/key-row';
import { type Dialect, type LocatedKey, NOT_KNOWN, type Source } from './rows/meant';
import { requireFew } from './shell/limits';

/** Functions whose first argument is the model. */
const OF_MODULES = Object.keys(WRAPPERS);

/** Functions that choose units. They appear as values of arguments. */
const POLICIES: Signatures = {
  transformer_auto_wrap_policy: ['module', 'recurse', 'nonwrapped_numel', 'transformer_layer_cls'],
  size_based_auto_wrap_policy: ['module', 'recurse', 'nonwrapped_numel', 'min_num_params'],
  ModuleWrapPolicy: ['module_classes'],
  lambda_auto_wrap_policy: ['module', 'recurse', 'nonwrapped_numel', 'lambda_fn'],
  CustomPolicy: ['lambda_fn'],
};

/** Returns the functions that are read, and the modules of programs that have some of them. */
function knownFunctions(): KnownFunctions {
  const signatures = Object.entries(pythonCalls().keys).map(([name, { parts = {} }]) => [
    name,
    [...(OF_MODULES.includes(name) ? ['module'] : []), ...Object.keys(parts)],
  ]);
  return {
    signatures: { ...POLICIES, ...Object.fromEntries(signatures) },
    modules: programs().flatMap(({ calls }) => calls?.module ?? []),
  };
}

/** Returns the settings in a script of Python: one source per call, in the order of the file; empty if no known function is called. */
export function pythonSources(text: string, file: string): readonly Source[] {
  const script = new PythonFile(text, file, knownFunctions());
  const calls = script.calls().filter(({ name }) => !Object.hasOwn(POLICIES, name));
  requireFew(calls.length, 'launches', `${file}: a script`, file);
  requireFew(calls.flatMap(({ given }) => given).length, 'settings', `${file}: a script`, file);
  const others = script
    .others()
    .map(({ name, line }) =>
      told({ file, line, key: name, path: [name], value: '' }, `is not PyTorch's, and is not read`),
    );
  const sources = calls.map((call): Source => {
    const reason = unusedReason(call, calls);
    return reason === null ? sourceOf(call, calls, file) : unusedSource(call, file, reason);
  });
  return [...sources, ...others];
}

/** Returns the lines of a call: one for the call, and one per argument. */
function sourceOf(call: PythonCall, calls: readonly PythonCall[], file: string): Source {
  const { name, written, line, given } = call;
  const blocks = OF_MODULES.includes(name)
    ? calls.find((one) => one.name === name && one.isInLoop)
    : undefined;
  const isRoot = blocks !== undefined && !call.isInLoop;
  const made: CallMade = {
    names: given.map((argument) => String(argument.name)),
    wrap: blocks === undefined ? 'root' : blocks.isOfLinears ? 'linear' : 'blocks',
    blocksLine: isRoot ? blocks.line : null,
    apart: apartOf(call, calls),
  };
  const own: LocatedKey = { file, line, key: written, path: [name], value: moduleOf(call), meant: made };
  const differing = isRoot ? given.filter((argument) => !isSame(argument, blocks)) : [];
  const entries = given
    .filter((argument) => argument.name !== 'module')
    .map((argument) => entryOf(argument, call, file));
  return { dialect: dialectOf(call, calls, differing, blocks), entries: [own, ...entries] };
}

/** Returns the strategies of a script's calls of FSDP, if the calls for modules and for the whole model differ; else null. */
function apartOf(call: PythonCall, calls: readonly PythonCall[]): CallMade['apart'] {
  if (call.name !== 'FullyShardedDataParallel') return null;
  const same = calls.filter(({ name }) => name === call.name);
  const [units, whole] = [same.find(({ isInLoop }) => isInLoop), same.find(({ isInLoop }) => !isInLoop)];
  if (units === undefined || whole === undefined) return null;
  // Without a strategy of its own, the call for the whole model follows the calls for its blocks.
  if (!whole.given.some(({ name }) => name === 'sharding_strategy')) return null;
  const [strategy, ofWhole] = [strategyIn(units), strategyIn(whole)];
  if (strategy === null || ofWhole === null || strategy === ofWhole) return null;
  return call.isInLoop
    ? { modules: `${units.over ?? 'blocks'}.*`, strategy }
    : { modules: null, strategy: ofWhole };
}

/** Returns the strategy of a call of FSDP; null if it is not known. */
function strategyIn({ given }: PythonCall): string | null {
  const argument = given.find(({ name }) => name === 'sharding_strategy');
  if (argument === undefined) return 'FULL_SHARD';
  return typeof argument.meant === 'string' ? (strategyNamed(member(argument.meant)) ?? null) : null;
}

/** Returns the dialect of a call. If the call wraps no blocks, arguments that differ from the call for blocks have no effect. */
function dialectOf(
  call: PythonCall,
  calls: readonly PythonCall[],
  differing: readonly PythonArgument[],
  blocks: PythonCall | undefined,
): Dialect {
  const { name } = call;
  const row = pythonCalls().keys[name] ?? none('');
  const isWholeModel = /^\w+$/.test(String(moduleOf(call)));
  const hasOwn = apartOf(call, calls) !== null;
  const other = warned(`is for this module only; the call for blocks on line ${blocks?.line ?? 0} decides`);
  const unit = hasOwn ? { sharding_strategy: none('is the strategy of these modules') } : {};
  const rows: KeyTable = Object.fromEntries(
    differing
      .filter((argument) => !hasOwn || argument.name !== 'sharding_strategy')
      .filter((argument) => Object.hasOwn(row.parts ?? {}, argument.name))
      .map((argument) => {
        const isUsual = argument.name === 'reshard_after_forward' && argument.meant === false && isWholeModel;
        return [argument.name, isUsual ? WHOLE_ROOT : other];
      }),
  );
  return { name, keys: { [name]: { ...row, parts: { ...row.parts, ...rows, ...unit, '**': SPREAD } } } };
}

const WHOLE_ROOT = none('parameters of the root are whole until its backward here in any case');

const SPREAD = warned('its keywords are not known here');

function entryOf({ name, line, written, meant }: PythonArgument, call: PythonCall, file: string): LocatedKey {
  const key = typeof name === 'number' ? `argument ${name}` : name;
  return { file, line, key: `${call.written}.${key}`, path: [call.name, key], value: written, meant };
}

function moduleOf({ name, given }: PythonCall): unknown {
  if (!OF_MODULES.includes(name)) return null;
  return given.find((argument) => argument.name === 'module')?.written ?? null;
}

/** Whether the call that wraps blocks has the same argument. */
function isSame({ name, meant, written }: PythonArgument, blocks: PythonCall): boolean {
  if (name === 'module') return true;
  const argument = blocks.given.find((one) => one.name === name);
  const textOf = (one: PythonArgument): string =>
    JSON.stringify(one.meant === NOT_KNOWN ? one.written : one.meant);
  return argument !== undefined && textOf(argument) === textOf({ name, meant, written, line: 0 });
}

/** Returns why a call has no effect; null if the call is read. */
function unusedReason(
  call: PythonCall,
  calls: readonly PythonCall[],
): { readonly isSure: boolean; readonly why: string } | null {
  const { name } = call;
  if (OF_MODULES.includes(name)) {
    // As in shell scripts, conditions are not evaluated, and the first branch is read.
    const first = calls.find((one) => OF_MODULES.includes(one.name));
    if (first === undefined || first.name === name) return null;
    return {
      isSure: false,
      why: `${first.written} on line ${first.line} comes first; conditions are not evaluated, and the first call is read`,
    };
  }
  const ofDdp = calls.find((one) => OF_MODULES.includes(one.name));
  if (Object.hasOwn(ZERO, name) && ofDdp !== undefined && ofDdp.name !== 'DistributedDataParallel')
    return {
      isSure: false,
      why: `shards the optimizer of DDP, but ${ofDdp.written} on line ${ofDdp.line} wraps the model`,
    };
  for (const table of [PRECISIONS, OFFLOADS]) {
    if (Object.hasOwn(table, name)) return unusedPolicy(call, calls, table);
  }
  return null;
}

/**
 * Returns why a policy of dtypes or of offloading has no effect: no call has this policy as argument, or several policies could
 * be the argument.
 */
function unusedPolicy(call: PythonCall, calls: readonly PythonCall[], table: KeyTable) {
  const wrapped = calls.filter((one) => OF_MODULES.includes(one.name) || Object.hasOwn(PLUGINS, one.name));
  const values = wrapped.flatMap(({ given }) => given.map(({ meant }) => meant));
  const used = values.flatMap((value) =>
    isCalled(value) && Object.hasOwn(table, value.call) ? [value.from] : [],
  );
  if (used.includes(call.from)) return null;
  if (used.length > 0) return { isSure: true, why: 'is not the argument of a call that is read' };
  if (!values.includes(NOT_KNOWN)) return { isSure: true, why: 'is no argument of a call that is read' };
  const same = calls.filter((one) => Object.hasOwn(table, one.name));
  if (same.length === 1) return null;
  const lines = same.map(({ line }) => line).join(', ');
  return {
    isSure: false,
    why: `is one of several (lines ${lines}), and which one is used is not known here`,
  };
}

function unusedSource(
  call: PythonCall,
  file: string,
  { isSure, why }: { readonly isSure: boolean; readonly why: string },
): Source {
  const { written, line } = call;
  return told({ file, line, key: written, path: [written], value: moduleOf(call) }, why, isSure);
}

function told(entry: LocatedKey, why: string, isSure = false): Source {
  const key = entry.path[0] ?? '';
  return { dialect: { name: 'Python', keys: { [key]: isSure ? none(why) : warned(why) } }, entries: [entry] };
}
