import { cpus, totalmem } from 'node:os';
import { formatBytes } from '../../core/units';
import type { Check } from './check';

const LEAST_NODE = [20, 19] as const;

/** Node's version against what package.json asks for. */
export function checkNode(version: string = process.versions.node): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor, leastMinor] = LEAST_NODE;
  const isNew = major > leastMajor || (major === leastMajor && minor >= leastMinor);
  const found = `${version} (${process.platform} ${process.arch})`;
  if (isNew) return { name: 'Node', status: 'good', found, facts: { version } };
  return { name: 'Node', status: 'bad', found, advice: `install Node ${LEAST_NODE.join('.')} or newer` };
}

/** Processor and memory of this host. */
export function checkHost(): Check {
  const processors = cpus();
  const model = processorName();
  const found = `${processors.length} × ${model}, ${formatBytes(totalmem())} of memory`;
  return {
    name: 'host',
    status: 'good',
    found,
    facts: { processor: model, cores: processors.length, memoryBytes: totalmem() },
  };
}

/** The processor's name as the operating system gives it. */
export function processorName(): string {
  return cpus()[0]?.model.trim() ?? 'unknown processor';
}
