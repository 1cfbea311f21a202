// SPDX-License-Identifier: Apache-2.0
// Short names for the schemas of the API description.
import type { components, operations } from "./schema";

type Schemas = components["schemas"];

export type Group = Schemas["GroupResource"];
export type GroupSpec = Schemas["GroupSpec"];
export type GroupPhase = Schemas["GroupPhase"];
export type DeliveryState = Schemas["DeliveryState"];
export type GroupSample = Schemas["GroupSample"];
export type WaitedFor = Schemas["WaitedFor"];
export type WaitedStrip = Schemas["WaitedStrip"];
export type TreeNode = Schemas["TreeNodeView"];
export type Member = Schemas["MemberResource"];
export type MemberSpec = Schemas["MemberSpec"];
export type Node = Schemas["NodeResource"];
export type NodeState = Schemas["NodeState"];
export type NodeSample = Schemas["NodeSample"];
export type AuthorityAgent = Schemas["AuthorityAgent"];
export type Host = Schemas["HostResource"];
export type HostAgent = Schemas["HostAgent"];
export type HostPort = Schemas["HostPort"];
export type PortState = Schemas["PortState"];
export type Link = Schemas["LinkResource"];
export type LinkState = Schemas["LinkState"];
export type QueueState = Schemas["QueueState"];
export type Topology = Schemas["TopologyResource"];
export type Drain = Schemas["DrainResource"];
export type Commit = Schemas["CommitResource"];
export type FieldChange = Schemas["FieldChange"];
export type AuditItem = Schemas["AuditItem"];
type AuditQuery = NonNullable<operations["listAudit"]["parameters"]["query"]>;
export type IntentKind = NonNullable<AuditQuery["kind"]>;
export type Action = NonNullable<AuditQuery["action"]>;
export type VersionedKind = operations["listVersions"]["parameters"]["query"]["kind"];
export type Version = Schemas["VersionItem"];
export type DryRun = Schemas["DryRun"];
export type Effect = Schemas["Effect"];
export type Problem = Schemas["ProblemItem"];
export type Silence = Schemas["SilenceResource"];
export type SilenceSpec = Schemas["SilenceSpec"];
export type SilenceRef = Schemas["SilenceRef"];
export type ProblemRef = Schemas["ProblemRef"];
export type ObjectRef = Schemas["ObjectRef"];
export type Severity = Schemas["Severity"];
export type Incident = Schemas["Incident"];
export type IncidentItem = Schemas["IncidentItem"];
export type IncidentProblem = Schemas["IncidentProblem"];
export type Capture = Schemas["Capture"];
export type CaptureHop = Schemas["CaptureHop"];
export type CaptureFrame = Schemas["CaptureFrame"];
export type CaptureDifference = Schemas["CaptureDifference"];
export type CaptureItem = Schemas["CaptureItem"];
export type ExpectedHop = Schemas["ExpectedHop"];
export type ExpectedPacket = Schemas["ExpectedPacket"];
export type ExpectedField = Schemas["ExpectedField"];
export type CaptureChange = Schemas["CaptureChange"];
export type Event = Schemas["EventItem"];
export type ControllerStatus = Schemas["ControllerStatus"];
export type StoreStatus = Schemas["StoreStatus"];
export type DomainStatus = Schemas["DomainStatus"];
export type RestartingAgent = Schemas["RestartingAgent"];
export type ConditionStatus = Schemas["ConditionStatus"];
export type ChartUnit = Schemas["ChartUnit"];
export type Flow = Schemas["FlowView"];
export type Session = Schemas["Session"];
export type Caller = Schemas["CallerItem"];
export type ChangeSet = Schemas["ChangeSetResource"];
export type ChangeSetPhase = Schemas["ChangeSetPhase"];
export type ErrorDocument = Schemas["Problem"];

/** What the map needs of the fabric: what is connected with what. */
export type FabricMap = Schemas["Map"];
/** What the map shows, and the states of the nodes. */
export type MapLayerName = operations["getMapLayer"]["parameters"]["path"]["layer"];
export type MapLayer = Schemas["MapLayer"];
