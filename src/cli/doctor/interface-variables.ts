import type { Check } from './checks';
import type { InterfaceVariable } from './reach-target';

/**
 * Checks whether variables name network interfaces that this machine has. `route` is the interface by which machine 0 is
 * reached; undefined: it is unknown.
 */
export function checkInterfaces(
  variables: readonly InterfaceVariable[],
  interfaces: readonly string[],
  route: string | undefined,
): readonly Check[] {
  return variables.map((variable) => checkVariable(variable, interfaces, route));
}

function checkVariable(
  { name, value, where }: InterfaceVariable,
  interfaces: readonly string[],
  route: string | undefined,
): Check {
  const chosen = interfaces.filter((interfaceName) => matches(name, value, interfaceName));
  const said = `${value} (${where})`;
  const facts = { value, where, interfaces, chosen, route: route ?? null };
  if (chosen.length === 0) {
    const finding = `${said} matches no interface of this machine`;
    const isPattern = !name.startsWith('NCCL') && /[=^]/.test(value);
    const advice = isPattern
      ? `gloo takes names only, not ^ or =; this machine has ${interfaces.join(', ')}`
      : `name one of ${interfaces.join(', ')}; each machine may need its own name`;
    return { name, status: 'bad', found: finding, advice, facts };
  }
  if (chosen.every((interfaceName) => interfaceName === 'lo')) {
    const advice = `the interface lo reaches no other machine: name one of ${interfaces.filter((interfaceName) => interfaceName !== 'lo').join(', ')}`;
    return { name, status: 'bad', found: `${said} chooses lo`, advice, facts };
  }
  if (route === undefined || route === 'lo' || chosen.includes(route)) {
    return { name, status: 'good', found: `${said} chooses ${chosen.join(', ')}`, facts };
  }
  const advice = `all machines must reach each other by ${chosen.join(', ')} too; if they do not, name ${route}`;
  const finding = `${said} chooses ${chosen.join(', ')}, but machine 0 is reached by ${route}`;
  return { name, status: 'note', found: finding, advice, facts };
}

/**
 * Whether a variable's value allows an interface. NCCL reads prefixes of names; '=' says that names are whole, '^' that they
 * are excluded. gloo and TensorPipe read whole names. Source: NVIDIA's list of NCCL's environment variables; PyTorch's
 * documentation of torch.distributed.
 */
function matches(variable: string, value: string, interfaceName: string): boolean {
  if (!variable.startsWith('NCCL')) return value.split(',').includes(interfaceName);
  const [, isExcluded, isWhole, names = ''] = /^(\^?)(=?)(.*)$/.exec(value) ?? [];
  const isNamed = names
    .split(',')
    .some((name) => (isWhole ? interfaceName === name : interfaceName.startsWith(name)));
  return isExcluded ? !isNamed : isNamed;
}
