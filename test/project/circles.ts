import { importsOf, type Sources } from './layers';

/** The circles of imports among these files, types included: each as its files, sorted. Source: Tarjan 1972. */
export function importCircles(sources: Sources): readonly (readonly string[])[] {
  const targets = new Map([...sources.keys()].map((path) => [path, [] as string[]]));
  for (const { from, to } of importsOf(sources)) if (targets.has(to)) targets.get(from)?.push(to);
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (path: string): void => {
    order.set(path, order.size);
    lowest.set(path, order.size - 1);
    open.push(path);
    for (const target of targets.get(path) ?? []) {
      if (!order.has(target)) visit(target);
      if (open.includes(target)) lowest.set(path, Math.min(lowestOf(path), lowestOf(target)));
    }
    if (lowestOf(path) !== order.get(path)) return;
    const circle = open.splice(open.indexOf(path));
    if (circle.length > 1) circles.push(circle.sort());
  };
  const lowestOf = (path: string): number => lowest.get(path) ?? 0;
  for (const path of targets.keys()) if (!order.has(path)) visit(path);
  return circles;
}
