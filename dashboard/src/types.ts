// The shapes that the pages use, from the API's own document (schema.d.ts is generated from it).
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Job = Schemas["JobView"];
export type Node = Schemas["NodeView"];
export type Queue = Schemas["QueueView"];
export type Attempt = Schemas["AttemptView"];
export type Incident = Schemas["IncidentView"];
export type Event = Schemas["EventView"];
export type Checkpoint = Schemas["CheckpointView"];
export type Summary = Schemas["SummaryView"];
export type Fabric = Schemas["FabricView"];
export type Point = Schemas["PointView"];
export type List<T> = { items: T[]; metadata: { resourceVersion: string; continue?: string } };
