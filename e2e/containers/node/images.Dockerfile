# The images that kubeadm asks for, each a small root with one program. A target is named as the image is, without its
# registry and tag. The context has the programs; BASE is a Debian root.
ARG BASE
FROM ${BASE} AS root
# The C library, what kube-proxy calls, certificates, and every library that these need.
RUN mkdir -p /out/usr/bin /out/usr/sbin /out/usr/lib /out/usr/lib64 /out/etc/ssl /out/tmp /out/run && chmod 1777 /out/tmp \
 && for name in bin sbin lib lib64; do ln -s "usr/$name" "/out/$name"; done \
 && programs="/usr/bin/dash /usr/bin/kmod /usr/sbin/conntrack /usr/sbin/nft /usr/sbin/xtables-nft-multi /usr/sbin/xtables-legacy-multi" \
 && libraries=/usr/lib/$(uname -m)-linux-gnu \
 && tables=$(ls $libraries/xtables/*.so) \
 && needed=$(ldd $programs $tables | grep -o '/[^ :]*\.so[^ :]*' | sort -u) \
 && for file in $programs $tables $needed /lib64/ld-linux-*.so.2 /lib/ld-linux-*.so.1 $libraries/libresolv.so.2; do \
      [ -e "$file" ] || continue; \
      file=$(realpath -s "$file"); case $file in /lib/*|/lib64/*) file=/usr$file ;; esac; \
      mkdir -p "/out$(dirname "$file")"; cp -L "$file" "/out$file"; \
    done \
 && for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do \
      ln -s xtables-nft-multi "/out/usr/sbin/$name"; done \
 && ln -s dash /out/usr/bin/sh && ln -s ../bin/kmod /out/usr/sbin/modprobe \
 && cp -aL /etc/ssl/certs /out/etc/ssl/ && cp /etc/passwd /etc/group /etc/nsswitch.conf /out/etc/ \
 && echo 'nonroot:x:65532:65532::/tmp:/usr/sbin/nologin' >> /out/etc/passwd && echo 'nonroot:x:65532:' >> /out/etc/group

FROM scratch AS small
COPY --from=root /out /
ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin

FROM small AS kube-apiserver
COPY kube-apiserver /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-apiserver"]

FROM small AS kube-controller-manager
COPY kube-controller-manager /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-controller-manager"]

FROM small AS kube-scheduler
COPY kube-scheduler /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-scheduler"]

FROM small AS kube-proxy
COPY kube-proxy /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/kube-proxy"]

FROM small AS etcd
COPY etcd /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/etcd"]

FROM small AS coredns
COPY coredns /coredns
ENTRYPOINT ["/coredns"]

FROM scratch AS pause
COPY pause /pause
USER 65535:65535
ENTRYPOINT ["/pause"]
