{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* Name of everything that the chart makes: at most 52 characters, so that names made from it fit. */}}
{{- define "canopy.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "canopy.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* What finds the pods of a component: a list of the root and the component. */}}
{{- define "canopy.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* An image: a list of the root and its values. */}}
{{- define "canopy.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Where agents reach the controller: a list of the root and what a value has for it. */}}
{{- define "canopy.controllerUrl" -}}
{{- $root := index . 0 -}}
{{- index . 1 | default (printf "https://%s-controller.%s.svc:8641" (include "canopy.fullname" $root) $root.Release.Namespace) -}}
{{- end -}}

{{/* A pod takes its settings when it starts: another content is another pod. */}}
{{- define "canopy.checksum" -}}
checksum/settings: {{ toJson . | sha256sum }}
{{- end -}}

{{/* Least revision of the resources that the operator writes to: REVISION in deploy/kubernetes/operator/src/crd.rs. */}}
{{- define "canopy.resourcesRevision" -}}4{{- end -}}

{{/* How the resources are upgraded. */}}
{{- define "canopy.upgradeResources" -}}
helm upgrade --install canopy-crds deploy/kubernetes/canopy-crds --namespace {{ .Release.Namespace }}
{{- end -}}
